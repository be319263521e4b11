"""Slurm and Kubernetes are kept in step: what is done on one side is seen on the other, and no job is lost on the way."""

from collections.abc import Iterator

import pytest
from tests.e2e.slurmcluster.release import Release, on
from tests.e2e.slurmcluster.sides import LASTING, node_of, reasons, tell_over, told
from tests.e2e.slurmcluster.tenants import UNLOCKED, Tenants, lives_on, lock_of, locks
from tests.waiting import eventually

from sunk.model import names

KINDS = ("cpu", "cpu", "cpu")
VALUES = {"accounting": {"enabled": False}, "compute": {"nodes": {"cpu": {"affinity": on("cpu")}}}}


@pytest.fixture(autouse=True)
def afterwards_all_are_idle(slurm: Release) -> Iterator[None]:
    yield
    slurm.cancel()
    eventually(lambda: len(slurm.idle()) == len(KINDS), seconds=120)


def test_a_cordon_drains_and_an_uncordon_takes_it_back(slurm: Release) -> None:
    name = slurm.idle()[0]
    node = node_of(slurm, name)
    slurm.kubectl("annotate", "node", node, f"{names.CORDON_REASON}=disk", "--overwrite")
    slurm.kubectl("cordon", node)
    try:
        eventually(lambda: reasons(slurm) == {name: "k8s: cordon: disk"})
        eventually(lambda: told(slurm, node, names.SLURM_DRAIN) == "k8s: cordon: disk")
        assert told(slurm, node, names.SLURM_CORDON) == ""
    finally:
        slurm.kubectl("uncordon", node)
        slurm.kubectl("annotate", "node", node, f"{names.CORDON_REASON}-")
    eventually(lambda: reasons(slurm) == {})


def test_a_drain_by_a_person_shows_on_the_node_and_is_left_alone(slurm: Release) -> None:
    name = slurm.idle()[0]
    node = node_of(slurm, name)
    slurm("scontrol", "update", f"nodename={name}", "state=drain", "reason=bad fan")
    eventually(lambda: told(slurm, node, names.SLURM_CORDON) == "bad fan")
    slurm.kubectl("cordon", node)
    slurm.kubectl("uncordon", node)
    assert reasons(slurm) == {name: "bad fan"}
    slurm("scontrol", "update", f"nodename={name}", "state=undrain")
    eventually(lambda: not told(slurm, node, names.SLURM_CORDON) and not told(slurm, node, names.SLURM_DRAIN))


def test_a_job_starts_when_other_work_is_gone_from_its_nodes_and_that_returns(
    slurm: Release, tenants: Tenants, nodes: tuple[str, ...]
) -> None:
    """What else is to be said about this is in test_lock.py and test_lock_waits.py."""
    tenants.run(replicas=3)
    before = lives_on(tenants, *nodes)

    said = slurm("srun", "-N2", "sh", "-c", "echo $SLURMD_NODENAME $(date +%s.%N); sleep 2").splitlines()
    started = {node_of(slurm, name): float(moment) for name, moment in map(str.split, said)}
    assert len(started) == 2
    for node, moment in started.items():
        assert tenants.last_alive(before[node]) < moment
    (third,) = before.keys() - started.keys()
    assert lives_on(tenants, third) == {third: before[third]}
    assert lock_of(slurm.kubectl, third) == UNLOCKED

    lives_on(tenants, *nodes)
    eventually(lambda: set(locks(slurm.kubectl).values()) == {UNLOCKED})


def test_a_node_leaves_when_its_job_is_over_and_gets_no_other(slurm: Release) -> None:
    before = slurm.idle()
    jobs = {name: slurm.submit(LASTING, "--exclusive", "-w", name) for name in before}
    for job in jobs.values():
        slurm.runs(job)
    slurm.kubectl("patch", "nodeset", "slurm-cpu", "--type=merge", "-p", '{"spec": {"replicas": 2}}')
    eventually(lambda: [*reasons(slurm).values()] == ["k8s: pending deletion"])
    (leaving,) = reasons(slurm)
    waiting = slurm.submit("true", "-w", leaving)
    assert leaving in slurm.kubectl("get", "pods", "-o", "name")
    assert slurm.job(jobs[leaving]) == "RUNNING"

    tell_over(slurm, *jobs.values())
    eventually(lambda: leaving not in slurm.kubectl("get", "pods", "-o", "name"))
    for job in jobs.values():
        slurm.ends(job)
    assert slurm.job(waiting) == "PENDING"
    slurm("scancel", waiting)
    eventually(lambda: slurm.idle() == sorted(set(before) - {leaving}))
    eventually(lambda: leaving not in slurm("scontrol", "show", "nodes", "--oneliner"))
    slurm.kubectl("patch", "nodeset", "slurm-cpu", "--type=json", "-p", '[{"op": "remove", "path": "/spec/replicas"}]')
    eventually(lambda: slurm.idle() == before, seconds=120)
