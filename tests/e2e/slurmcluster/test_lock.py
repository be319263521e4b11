"""One Node, two kinds of work: who has to leave for a job, who comes back, and what happens if somebody does not leave.

The operator unlocks a Node the moment that it is idle, so that other work is always about to come back. Prologs give up
soon. All that is not a compute node runs on the first Node, so that the others can be hurt.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec import json
from tests.e2e.slurmcluster import kubelet
from tests.e2e.slurmcluster.processes import cut
from tests.e2e.slurmcluster.release import FIRST, ON_FIRST, Release, on
from tests.e2e.slurmcluster.sides import (
    BEGINS,
    LASTING,
    STRICTLY,
    begins,
    begun,
    end,
    inside,
    node_of,
    reasons,
    reboot_asked,
    rebooting,
    say,
    told,
    uid_of,
    update,
)
from tests.e2e.slurmcluster.tenants import (
    LOCKED,
    STAYS,
    UNLOCKED,
    Tenants,
    alive_on,
    lives_on,
    lock_of,
    locks,
    waits,
)
from tests.waiting import eventually

from sunk.local.kubernetes.cluster import LocalCluster
from sunk.model import names
from sunk.model.contract import clusterobjects, hooks

pytestmark = pytest.mark.full

KINDS = ("cpu", "cpu", "cpu")
TIMEOUT = 20
VALUES = {
    "accounting": {"enabled": False},
    "nodeSelector": ON_FIRST,
    # The operator's values do not allow what this asks for.
    "syncer": {"hooksAPI": {"timeout": TIMEOUT}, "nodePermissions": {"enabled": True}},
    "compute": {"nodes": {"cpu": {"affinity": on("cpu")}}},
}
OPERATOR_VALUES = {"lockLinger": "0"}
STARTED = "date +%s.%N"
SPELL = f'begin=$({STARTED}); sleep 1; echo "$begin $({STARTED})"'
UNLESS_DISRUPTED = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}


@pytest.fixture(autouse=True)
def afterwards_all_are_idle(slurm: Release) -> Iterator[None]:
    yield
    slurm.cancel()
    for name, reason in reasons(slurm).items():
        if reason == hooks.TIMED_OUT:
            update(slurm, name, state="undrain")
    eventually(lambda: len(slurm.idle()) == len(KINDS))
    eventually(lambda: set(locks(slurm.kubectl).values()) == {UNLOCKED})


@pytest.fixture
def exposed(slurm: Release) -> list[tuple[str, str]]:
    """Compute nodes with the Nodes below them, without the one that the rest runs on."""
    both = ((name, node_of(slurm, name)) for name in slurm.idle())
    return [(name, node) for name, node in both if node != FIRST]


def elsewhere(slurm: Release, job: str) -> str:
    """Let a job that was queued again run on any node, and give the one it has run on."""
    eventually(lambda: slurm.job(job) == "PENDING")
    # Slurm lets it wait for half a minute otherwise.
    slurm("scontrol", "update", f"jobid={job}", "reqnodelist=", "starttime=now")
    slurm.ends(job)
    return slurm.job(job, "NodeList")


def verify(slurm: Release, *drained: str) -> None:
    """Tell that these machines were tried and are good, until they are back in service."""

    def lifted() -> bool:
        for name in drained:
            say(slurm, name, names.HPC_VERIFICATION, "True", lastProbeTime=datetime.now(UTC).isoformat())
        return reasons(slurm) == {}

    eventually(lifted)


# Jobs come and go


def test_two_jobs_share_a_node_and_the_lock_ends_with_the_second(slurm: Release) -> None:
    name = slurm.idle()[0]
    node = node_of(slurm, name)
    first, second = (slurm.submit(f"{BEGINS}; {LASTING}", "-n1", "-w", name) for _ in range(2))
    for job in (first, second):
        begins(slurm, name, job)
    assert lock_of(slurm.kubectl, node) == LOCKED
    end(slurm, name, first)
    time.sleep(4)
    assert lock_of(slurm.kubectl, node) == LOCKED
    end(slurm, name, second)
    eventually(lambda: lock_of(slurm.kubectl, node) == UNLOCKED)


def test_jobs_that_follow_each_other_at_once_never_meet_work_that_keeps_coming_back(
    slurm: Release, tenants: Tenants
) -> None:
    name = slurm.idle()[-1]
    node = node_of(slurm, name)
    tenants.run(on=node)
    lives_on(tenants, node)
    here = ("--exclusive", "-w", name)
    # Each starts in the moment in which the one before ends.
    array = slurm.submit(f"{{ {SPELL}; }} >> /tmp/spells-$SLURM_ARRAY_JOB_ID", "--array=1-5", *here)
    slurm.ends(array)
    spells = inside(slurm, name, "cat", f"/tmp/spells-{array}").splitlines()  # noqa: S108 - where the job wrote
    for number in range(4):
        if number % 2:
            lives_on(tenants, node)
        spells += slurm("srun", *here, "sh", "-c", SPELL).splitlines()
    assert len(spells) == 9

    lives = tenants.lives()
    assert len(lives) >= 3
    for spell in spells:
        begin, over = map(float, spell.split())
        assert not [life for life in lives if life.meets(begin, over)]


def test_a_job_that_is_requeued_to_the_same_node_waits_for_work_that_has_come_back(
    slurm: Release, tenants: Tenants
) -> None:
    name = slurm.idle()[-1]
    node = node_of(slurm, name)
    tenants.run(on=node)
    first = lives_on(tenants, node)[node]
    job = slurm.submit(f"{BEGINS}; {LASTING}", "-w", name, "--requeue")
    begins(slurm, name, job)
    slurm("scontrol", "requeue", job)
    second = lives_on(tenants, node)[node]
    slurm.starts_at_once(job)
    begins(slurm, name, job, times=2)
    assert (slurm.job(job, "NodeList"), slurm.job(job, "Restarts")) == (name, "1")
    for uid, moment in zip((first, second), begun(slurm, name, job), strict=True):
        assert tenants.last_alive(uid) < moment
    pod = json.decode(slurm.kubectl("get", "pod", name, "-o", "json"))
    assert json.decode(pod["metadata"]["annotations"][names.LOCK_REQUEST])["jobs"] == [f"{job}/1"]


def test_a_job_cancelled_while_it_waits_drains_nothing(slurm: Release, tenants: Tenants) -> None:
    name = slurm.idle()[0]
    node = node_of(slurm, name)
    tenants.run(on=node, on_term=STAYS, grace=600)
    lives_on(tenants, node)
    job = slurm.submit("true", "-w", name)
    waits(slurm.kubectl, node)
    slurm("scancel", job)
    eventually(lambda: not slurm("squeue", "--noheader"))
    assert slurm.job(job) == "CANCELLED"
    assert reasons(slurm) == {}


def test_arrays_and_het_jobs_run_under_the_lock(slurm: Release) -> None:
    slurm.ends(slurm.submit("sleep 1", "--array=1-12", "-n1"))
    said = slurm("srun", "-N1", "hostname", ":", "-N1", "hostname").split()
    assert len(said) == 2
    assert reasons(slurm) == {}


def test_a_taint_taken_off_by_hand_is_back_while_a_job_runs(slurm: Release) -> None:
    name = slurm.idle()[0]
    node = node_of(slurm, name)
    slurm.submit(LASTING, "-w", name)
    eventually(lambda: lock_of(slurm.kubectl, node) == LOCKED)
    slurm.kubectl("taint", "node", node, f"{names.LOCK}:NoExecute-")
    eventually(lambda: lock_of(slurm.kubectl, node) == LOCKED)


# All kinds of other work


def test_a_job_of_kubernetes_fails_by_its_eviction_unless_it_says_otherwise(slurm: Release, tenants: Tenants) -> None:
    name = slurm.idle()[-1]
    node = node_of(slurm, name)
    tenants.run_job("fragile", on=node)
    tenants.run_job("patient", on=node, podFailurePolicy=UNLESS_DISRUPTED)
    alive_on(tenants, node, node)
    evicted = tenants.lives()
    job = slurm.submit(BEGINS, "-w", name)
    slurm.ends(job)
    (moment,) = begun(slurm, name, job)
    assert all(tenants.last_alive(life.uid) < moment for life in evicted)

    eventually(lambda: ended(slurm, "fragile") == "Failed: BackoffLimitExceeded")
    eventually(lambda: len(tenants.lives()) == 3)
    assert ended(slurm, "patient") == ""
    tenants.leave(*(life.uid for life in tenants.lives()))
    eventually(lambda: ended(slurm, "patient").startswith("Complete"))
    assert len(tenants.lives()) == 3


def ended(slurm: Release, job: str) -> str:
    """How a Job of Kubernetes has ended, and why; empty if it has not."""
    status = json.decode(slurm.kubectl("get", "job", job, "-o", "json"))["status"]
    final = [one for one in status.get("conditions", []) if one["type"] in {"Failed", "Complete"}]
    return next((f"{one['type']}: {one['reason']}" for one in final if one["status"] == "True"), "")


@contextmanager
def static(file: Path, manifest: str) -> Iterator[None]:
    """Have a kubelet run a Pod of its own. It reads whole files only."""
    unread = file.with_name(f".{file.name}")
    unread.write_text(manifest)
    unread.rename(file)
    try:
        yield
    finally:
        file.unlink()


def test_a_static_pod_stays_and_the_job_starts_beside_it(
    slurm: Release, tenants: Tenants, cluster: LocalCluster
) -> None:
    machine = cluster.machines[-1]
    (name,) = (name for name in slurm.idle() if node_of(slurm, name) == machine.name)
    with static(machine.static_pods / "beside.yaml", tenants.manifest("beside")):
        mirror = f"beside-{machine.name}"
        eventually(lambda: len(tenants.alive()) == 1 and tenants.exists(mirror))
        before = uid_of(slurm, mirror)
        slurm.ends(slurm.submit("sleep 1", "-w", name))
        assert len(tenants.lives()) == 1
        alive_on(tenants, machine.name)
        assert uid_of(slurm, mirror) == before
        assert reasons(slurm) == {}
    eventually(lambda: not tenants.exists(mirror))


# What fails


def test_what_does_not_leave_in_time_drains_the_node_until_that_is_verified(
    slurm: Release, tenants: Tenants, exposed: list[tuple[str, str]]
) -> None:
    (stuck, under_stuck), (kept, under_kept) = exposed
    tenants.place("unkillable", on=under_stuck, on_term=STAYS, grace=600)
    tenants.place("kept", on=under_kept, held=True)
    lives_on(tenants, under_stuck, under_kept)
    jobs = slurm.submit("true", "-w", stuck), slurm.submit("true", "-w", kept, STRICTLY)
    for node in (under_stuck, under_kept):
        waits(slurm.kubectl, node)
    failed = {stuck: hooks.TIMED_OUT, kept: hooks.TIMED_OUT}
    eventually(lambda: reasons(slurm) == failed, seconds=TIMEOUT + 120)
    assert hooks.TIMED_OUT == "prolog pre-hook failed (sunk:verify-undrain)"
    eventually(lambda: told(slurm, under_stuck, names.SLURM_CORDON) == hooks.TIMED_OUT)
    for job in jobs:
        assert elsewhere(slurm, job) not in failed
        assert slurm.job(job, "Restarts") == "1"
    assert reasons(slurm) == failed
    alive_on(tenants, under_stuck)
    verify(slurm, stuck, kept)


def test_a_pod_on_a_dead_kubelet_is_in_the_way_for_nobody_knows_how_it_is(
    slurm: Release, tenants: Tenants, exposed: list[tuple[str, str]], cluster: LocalCluster
) -> None:
    name, node = exposed[0]
    tenants.place("unknown", on=node)
    lives_on(tenants, node)
    with kubelet.stopped(cluster, node):
        job = slurm.submit("true", "-w", name)
        waits(slurm.kubectl, node)
        eventually(lambda: reasons(slurm).get(name) == hooks.TIMED_OUT, seconds=TIMEOUT + 120)
        assert elsewhere(slurm, job) != name
        alive_on(tenants, node)
    eventually(lambda: not tenants.exists("unknown") and not tenants.alive())
    verify(slurm, name)
    slurm.ends(slurm.submit("true", "-w", name))


def test_a_node_that_does_not_reach_the_syncer_is_drained_for_as_long_as_that_lasts(
    slurm: Release, exposed: list[tuple[str, str]], cluster: LocalCluster
) -> None:
    name, node = exposed[0]
    with cut(cluster, node, port=clusterobjects.HOOKS_PORT):
        job = slurm.submit("true", "-w", name)
        eventually(lambda: reasons(slurm) == {name: "k8s: syncer not reached"}, seconds=TIMEOUT + 120)
        eventually(lambda: slurm.job(job) == "PENDING")
        assert told(slurm, node, names.SLURM_CORDON) == ""
        time.sleep(6)
        assert reasons(slurm) == {name: hooks.UNREACHED}
    eventually(lambda: reasons(slurm) == {})
    slurm.starts_at_once(job)
    slurm.ends(job)
    assert (slurm.job(job, "NodeList"), slurm.job(job, "Restarts")) == (name, "1")


def test_a_reboot_that_the_operator_does_not_allow_is_refused_and_slurmd_says_why(slurm: Release) -> None:
    name = slurm.idle()[-1]
    with rebooting(slurm, name):
        eventually(lambda: "is not rebooted" in slurm.kubectl("logs", name, "-c", names.SLURMD, "--since=300s"))
        said = slurm.kubectl("logs", name, "-c", names.SLURMD, "--since=300s").splitlines()
        refused = next(line for line in said if "is not rebooted" in line)
        assert "status 403" in refused
        assert "nodePermissions" in refused
        assert reboot_asked(slurm, node_of(slurm, name)) == ""
