"""One Node, two kinds of work: a Slurm job starts only when the Kubernetes work beside it is gone, and that returns."""

import time
from collections.abc import Iterator

import pytest
from msgspec import json
from tests.e2e.slurmcluster.release import Release, on
from tests.e2e.slurmcluster.sides import LASTING, node_of, reasons, tell_over
from tests.e2e.slurmcluster.tenants import Tenants, lock_of
from tests.waiting import eventually

from sunk.model import names

KINDS = ("cpu", "cpu", "cpu")
TIMEOUT = 60
VALUES = {
    "syncer": {"hooksAPI": {"timeout": TIMEOUT}},
    "compute": {"nodes": {"cpu": {"affinity": on("cpu")}}},
}
FAILED = "prolog pre-hook failed (sunk:verify-undrain)"
STARTED = "date +%s.%N"


@pytest.fixture
def tenants(slurm: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    folder = tmp_path_factory.mktemp("beats")
    folder.chmod(0o777)
    found = Tenants(slurm.kubectl, folder)
    yield found
    found.remove()


@pytest.fixture(autouse=True)
def afterwards_nothing_is_queued(slurm: Release) -> Iterator[None]:
    yield
    slurm.cancel()
    for name, reason in reasons(slurm).items():
        if reason == FAILED:
            slurm("scontrol", "update", f"nodename={name}", "state=undrain")
    eventually(lambda: len(slurm.idle()) == len(KINDS))


def nodes_of(slurm: Release, job: str) -> list[str]:
    """The Kubernetes Nodes of a job."""
    listed = slurm("scontrol", "show", "hostnames", slurm.job(job, "NodeList").split()[-1]).split()
    return [node_of(slurm, name) for name in listed]


def test_a_job_starts_when_other_work_is_gone_from_its_nodes_and_that_returns(slurm: Release, tenants: Tenants) -> None:
    tenants.run(replicas=3)
    eventually(lambda: len(tenants.running()) == 3)
    before = tenants.running()

    said = slurm("srun", "-N2", "sh", "-c", f"echo $SLURMD_NODENAME $({STARTED}); sleep 2").splitlines()
    started = {node_of(slurm, name): float(moment) for name, moment in map(str.split, said)}
    for node, moment in started.items():
        assert tenants.last_alive(before[node]) < moment
    (third,) = before.keys() - started.keys()
    assert tenants.running()[third] == before[third]
    assert lock_of(slurm.kubectl, third) == ("false", False)

    eventually(lambda: len(tenants.running()) == 3)
    assert {lock_of(slurm.kubectl, node) for node in before} == {("false", False)}


@pytest.mark.full
def test_two_jobs_share_a_node_and_the_lock_ends_with_the_second(slurm: Release) -> None:
    name = slurm.idle()[0]
    node = node_of(slurm, name)
    first, second = (slurm.submit(LASTING, "-n1", "-w", name) for _ in range(2))
    slurm.runs(first)
    slurm.runs(second)
    eventually(lambda: lock_of(slurm.kubectl, node) == ("locked", True))
    tell_over(slurm, first)
    slurm.ends(first)
    time.sleep(15)
    assert lock_of(slurm.kubectl, node) == ("locked", True)
    tell_over(slurm, second)
    slurm.ends(second)
    eventually(lambda: lock_of(slurm.kubectl, node) == ("false", False))


@pytest.mark.full
def test_a_pod_that_takes_its_time_delays_the_job_by_that(slurm: Release, tenants: Tenants) -> None:
    tenants.run(replicas=3, on_term="trap 'ending=1' TERM", grace=20)
    eventually(lambda: len(tenants.running()) == 3)
    asked = time.time()
    started = float(slurm("srun", "-N1", "sh", "-c", STARTED))
    assert 20 < started - asked < 28


@pytest.mark.full
def test_what_cannot_be_evicted_drains_the_node_and_a_batch_job_runs_elsewhere(
    slurm: Release, tenants: Tenants
) -> None:
    tenants.run(replicas=1, on_term="trap '' TERM", grace=600)
    eventually(lambda: len(tenants.running()) == 1)
    (node,) = tenants.running()
    (stuck,) = [name for name in slurm.idle() if node_of(slurm, name) == node]
    job = slurm.submit("true", "-N1", f"--exclude={','.join(set(slurm.idle()) - {stuck})}", "--requeue")
    eventually(lambda: reasons(slurm).get(stuck) == FAILED, seconds=TIMEOUT + 30)
    eventually(lambda: slurm.job(job) == "PENDING")
    slurm("scontrol", "update", f"jobid={job}", "excnodelist=")
    slurm.ends(job)
    assert slurm.job(job, "NodeList") != stuck


@pytest.mark.full
def test_a_job_cancelled_while_it_waits_drains_nothing(slurm: Release, tenants: Tenants) -> None:
    tenants.run(replicas=3, on_term="trap '' TERM", grace=600)
    eventually(lambda: len(tenants.running()) == 3)
    job = slurm.submit("true", "-N1")
    eventually(lambda: slurm.job(job) == "RUNNING")
    time.sleep(2)
    slurm("scancel", job)
    eventually(lambda: not slurm("squeue", "--noheader"), seconds=30)
    assert reasons(slurm) == {}


@pytest.mark.full
def test_a_job_that_is_requeued_to_the_same_node_waits_again(slurm: Release) -> None:
    name = slurm.idle()[0]
    job = slurm.submit(LASTING, "-N1", "-w", name, "--requeue")
    slurm.runs(job)
    slurm("scontrol", "requeue", job)
    eventually(lambda: slurm.job(job, "Restarts") == "1" and slurm.job(job) == "RUNNING", seconds=180)
    eventually(lambda: lock_of(slurm.kubectl, node_of(slurm, name)) == ("locked", True))
    pod = json.decode(slurm.kubectl("get", "pod", name, "-o", "json"))
    assert json.decode(pod["metadata"]["annotations"][names.LOCK_REQUEST])["jobs"] == [f"{job}/1"]


@pytest.mark.full
def test_arrays_and_het_jobs_run_under_the_lock(slurm: Release) -> None:
    array = slurm.submit("sleep 1", "--array=1-12", "-n1")
    slurm.ends(array)
    said = slurm("srun", "-N1", "hostname", ":", "-N1", "hostname").split()
    assert len(set(said)) in {1, 2}
    assert reasons(slurm) == {}


@pytest.mark.full
def test_a_syncer_that_dies_while_jobs_wait_costs_nothing(slurm: Release, tenants: Tenants) -> None:
    tenants.run(replicas=3, on_term="trap 'ending=1' TERM", grace=20)
    eventually(lambda: len(tenants.running()) == 3)
    job = slurm.submit(f"srun sh -c '{STARTED}'", "-N3")
    slurm.runs(job)
    time.sleep(2)
    syncer = "app.kubernetes.io/component=syncer"
    slurm.kubectl("delete", "pods", "-l", syncer, "--force", "--grace-period=0", "--wait=false")
    slurm.ends(job)
    assert reasons(slurm) == {}


@pytest.mark.full
def test_a_taint_taken_off_by_hand_is_back_while_a_job_runs(slurm: Release) -> None:
    job = slurm.submit(LASTING, "-N1")
    slurm.runs(job)
    (node,) = nodes_of(slurm, job)
    eventually(lambda: lock_of(slurm.kubectl, node) == ("locked", True))
    slurm.kubectl("taint", "node", node, f"{names.LOCK}:NoExecute-")
    eventually(lambda: lock_of(slurm.kubectl, node) == ("locked", True), seconds=5)


@pytest.mark.full
def test_a_user_cannot_read_the_token_of_the_node(slurm: Release) -> None:
    said = slurm("srun", "-N1", "sh", "-c", "cat /run/sunk/hooks/token 2>&1 || true")
    assert "Permission denied" in said
