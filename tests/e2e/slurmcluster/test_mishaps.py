"""A job takes too much, or a Pod is lost: nobody else's work suffers, and nobody has to lend a hand."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import json
from tests.e2e.slurmcluster.release import Release, on
from tests.e2e.slurmcluster.sides import LASTING, fate, slurmd, tell_over, uid_of
from tests.waiting import eventually

from sunk.model import names
from sunk.operator.slurmcluster.builders.pods import NEVER

pytestmark = pytest.mark.full

KINDS = ("cpu", "cpu", "cpu")
LIMIT, RESERVE = 512, 64
"""Memory of a compute Pod, and what of it is kept from Slurm, in MiB."""
VALUES = {
    "accounting": {"enabled": False},
    # So that nobody could say that slurmctld had given the node up and restarted.
    "slurmConfig": {"slurmd": {"timeout": 300}},
    "compute": {
        "reservedMemory": f"{RESERVE}Mi",
        "nodes": {"cpu": {"affinity": on("cpu"), "resources": {"limits": {"cpu": "2", "memory": f"{LIMIT}Mi"}}}},
    },
}
# It keeps the last lines of a file, and this one has a single line without an end.
GREEDY = "exec tail /dev/zero"


@pytest.fixture(autouse=True)
def afterwards_nothing_is_queued(slurm: Release) -> Iterator[None]:
    yield
    slurm.cancel()
    eventually(lambda: len(slurm.idle()) == len(KINDS))


def pods(slurm: Release) -> dict[str, Any]:
    """The compute Pods by name."""
    found = json.decode(slurm.kubectl("get", "pods", "-l", "app.kubernetes.io/component=compute", "-o", "json"))
    return {one["metadata"]["name"]: one for one in found["items"]}


def address(slurm: Release, name: str) -> str:
    """Where slurmctld calls it."""
    return str(re.findall(r"NodeAddr=(\S+)", slurm("scontrol", "show", "node", name))[0])


def life(slurm: Release, name: str) -> tuple[str, str, int, str]:
    """The Pod, its container, how often that was restarted, and slurmd in it."""
    (container,) = pods(slurm)[name]["status"]["containerStatuses"]
    return uid_of(slurm, name), container["containerID"], container["restartCount"], slurmd(slurm, name)


def test_nothing_restarts_a_slurmd_over_its_jobs_and_slurm_gets_less_than_the_pod(slurm: Release) -> None:
    """M3: neither a probe nor the memory of slurmd itself."""
    found = pods(slurm)
    assert len(found) == len(KINDS)
    for name, pod in found.items():
        (container,) = pod["spec"]["containers"]
        assert container["name"] == names.SLURMD
        assert "livenessProbe" not in container
        assert container["startupProbe"]["failureThreshold"] == NEVER
        assert container["resources"]["limits"]["memory"] == f"{LIMIT}Mi"
        assert f" RealMemory={LIMIT - RESERVE} " in slurm("scontrol", "show", "node", name)


def test_a_job_that_takes_more_than_the_pod_has_dies_alone(slurm: Release) -> None:
    """M3: with control groups v2 only because the kubelets of `sunk local` are told `singleProcessOOMKill`."""
    name = slurm.idle()[0]
    neighbour = slurm.submit(LASTING, "-n1", "-w", name)
    slurm.runs(neighbour)
    before = life(slurm, name)
    greedy = slurm.submit(GREEDY, "-n1", "-w", name, "--no-requeue")
    under_way = {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING"}
    eventually(lambda: slurm.job(greedy) not in under_way, seconds=180)
    assert (slurm.job(greedy), slurm.job(greedy, "ExitCode")) in {("FAILED", "0:9"), ("OUT_OF_MEMORY", "0:125")}
    assert slurm.job(greedy, "NodeList") == name
    assert fate(slurm, neighbour) == ("RUNNING", "0")
    assert life(slurm, name) == before
    tell_over(slurm, neighbour)
    slurm.ends(neighbour)
    assert slurm("srun", "-w", name, "hostname").strip() == name


def test_a_pod_lost_in_mid_queue_comes_back_at_another_address_and_jobs_span_it(slurm: Release) -> None:
    """M13."""
    name, other, third = slurm.idle()
    before = {one: pod["metadata"]["uid"] for one, pod in pods(slurm).items()}
    old = address(slurm, name)
    assert old == pods(slurm)[name]["status"]["podIP"]
    running = slurm.submit(LASTING, "--exclusive", "-w", other)
    slurm.runs(running)
    queued = [slurm.submit("srun hostname", "-N3", "--exclusive") for _ in range(3)]
    eventually(lambda: slurm.job(queued[0], "Reason") == "Resources")

    # By force, so that it cannot say farewell.
    slurm.kubectl("delete", "pod", name, "--force", "--grace-period=0")
    eventually(lambda: uid_of(slurm, name) not in {"", before[name]}, seconds=120)
    slurm.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=110s")
    back = pods(slurm)[name]
    assert back["status"]["podIP"] != old
    assert [slurm.job(one) for one in queued] == ["PENDING"] * 3

    tell_over(slurm, running)
    for job in (running, *queued):
        slurm.ends(job)
        assert slurm.job(job, "Restarts") == "0"
    assert sorted(slurm("srun", "-N3", "hostname").split()) == sorted((name, other, third))
    assert address(slurm, name) == back["status"]["podIP"]
    # None of them was restarted to get there.
    now = {one: pod["metadata"]["uid"] for one, pod in pods(slurm).items()}
    assert now == before | {name: back["metadata"]["uid"]}
