"""The probes of slurmctld's Pod, run beside a real slurmctld: one that is well, one that hangs, one that is gone."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.hanging import SLURM, hanging
from tests.unit.operator.slurmcluster.clusters import cluster, container
from tests.versions import BOTH

from sunk.local import slurm as slurms
from sunk.local.slurm import CommandResult, Slurm
from sunk.local.slurm.boxes.box import SLURM_USER
from sunk.local.slurm.configuration import CONTROLLER

SECONDS = 8
LATE = f"within {SECONDS} s"
PATIENCE = 90.0
KINDS = ("startupProbe", "readinessProbe", "livenessProbe")


def probe(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = container(cluster(), "Deployment", "slurm-controller")[kind]
    return found


def probed(slurm: Slurm, kind: str) -> CommandResult:
    """Run it where and as whom Kubernetes does."""
    return slurm.attempt(*probe(kind)["exec"]["command"], on=CONTROLLER, uid=SLURM_USER, timeout=PATIENCE)


def in_time(kind: str) -> bool:
    """Whether it ends by itself before Kubernetes ends it. By its words: a busy machine takes as long as it likes."""
    command = " ".join(probe(kind)["exec"]["command"])
    limited = command.count("$(scontrol") == 0 and command.count(f"$(timeout {SECONDS} scontrol") == 1
    return limited and bool(probe(kind)["timeoutSeconds"] > SECONDS)


def failing(slurm: Slurm) -> dict[str, CommandResult]:
    """Probes that have said something against a slurmctld that is well. What got no answer in time is tried again."""
    last = time.monotonic() + PATIENCE
    while True:
        found = {kind: answer for kind, answer in all_probed(slurm).items() if answer.code}
        if not found or any(LATE not in answer.out for answer in found.values()) or time.monotonic() > last:
            return found


def all_probed(slurm: Slurm) -> dict[str, CommandResult]:
    """Each of them, at the same time: one that waits takes seconds."""
    with ThreadPoolExecutor() as threads:
        return dict(zip(KINDS, threads.map(lambda kind: probed(slurm, kind), KINDS), strict=True))


@pytest.fixture(scope="module", params=BOTH)
def slurm(request: pytest.FixtureRequest) -> Iterator[Slurm]:
    with slurms.cluster(version=request.param, **SLURM) as it:
        yield it


def test_a_slurmctld_that_is_well_passes_with_and_without_nodes(slurm: Slurm) -> None:
    assert failing(slurm) == {}
    slurm.add("n1")
    assert failing(slurm) == {}


def test_one_that_hangs_and_answers_pings_fails_within_the_time_that_kubernetes_gives(slurm: Slurm) -> None:
    with hanging(slurm):
        ping = slurm.run("scontrol", "ping")
        found = all_probed(slurm)
    assert "UP" in ping
    for kind, answer in found.items():
        assert answer.code, kind
        assert in_time(kind), f"{kind} would not come to say: {answer.out}"
        assert LATE in answer.out, kind
    assert failing(slurm) == {}, "it goes on"


def test_an_error_of_scontrol_over_a_broken_file_costs_readiness_and_no_restart(slurm: Slurm) -> None:
    file = slurm.layout.folder / "etc" / "slurm.conf"
    good = file.read_text()
    file.write_text(good + "ThisIsNo=Setting\n")
    try:
        found = all_probed(slurm)
    finally:
        file.write_text(good)
    assert found["readinessProbe"].code
    assert not found["livenessProbe"].code


def test_one_that_is_gone_fails(slurm: Slurm) -> None:
    slurm.stop(CONTROLLER)
    try:
        found = all_probed(slurm)
    finally:
        slurm.start(CONTROLLER)
    for kind, answer in found.items():
        assert answer.code, kind
        assert in_time(kind), kind


@pytest.mark.parametrize(("seconds", "failures"), [(60, 6), (65, 7), (300, 30)])
def test_a_restart_follows_when_no_probe_has_passed_for_as_long_as_the_values_say(seconds: int, failures: int) -> None:
    made = container(cluster({"controller": {"hangSeconds": seconds}}), "Deployment", "slurm-controller")
    probe = made["livenessProbe"]
    assert probe["failureThreshold"] == failures
    assert 0 <= probe["failureThreshold"] * probe["periodSeconds"] - seconds < probe["periodSeconds"]
