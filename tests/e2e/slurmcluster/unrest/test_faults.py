"""Machines and daemons fail below a Slurm cluster: what runs goes on, and both sides are in step again afterwards."""

import time

from msgspec import json
from tests.e2e.slurmcluster import kubelet
from tests.e2e.slurmcluster.release import Release
from tests.e2e.slurmcluster.sides import (
    BEGINS,
    LASTING,
    begins,
    cordoned,
    fate,
    inside,
    node_of,
    reasons,
    slurmd,
    tell_over,
    told,
    uid_of,
)
from tests.e2e.slurmcluster.unrest import ground
from tests.e2e.slurmcluster.unrest.ground import PATIENCE, exposed, in_time, throughout
from tests.e2e.slurmcluster.unrest.killing import Unrest

from sunk.local.kubernetes.cluster import LocalCluster
from sunk.model import names

pytestmark = ground.MARKS

KINDS = ground.KINDS
VALUES = ground.VALUES
SILENCE = 360.0
OUTAGE = 120.0


def members(slurm: Release) -> list[str]:
    return sorted(slurm.kubectl("get", "nodeslices", "-o", "jsonpath={.items[*].spec.entries[*].name}").split())


def claimed(slurm: Release, node: str) -> bool:
    found = json.decode(slurm.kubectl("get", "node", node, "-o", "json"))
    return names.CLAIM in found["metadata"].get("annotations", {})


def test_a_kubelet_that_is_silent_for_six_minutes_costs_no_job_and_no_pod(
    slurm: Release, cluster: LocalCluster
) -> None:
    name, node = exposed(slurm)
    before = uid_of(slurm, name)
    first, second = (slurm.submit(LASTING, "-n1", "-w", name) for _ in range(2))
    slurm.runs(first)
    slurm.runs(second)

    def untouched() -> bool:
        return uid_of(slurm, name) == before and fate(slurm, second) == ("RUNNING", "0")

    with kubelet.stopped(cluster, node):
        end = time.monotonic() + SILENCE
        in_time(lambda: reasons(slurm) == {name: "k8s: pod not ready"})
        waiting = slurm.submit("true", "-w", name)
        tell_over(slurm, first)
        slurm.ends(first)
        throughout(untouched, seconds=end - time.monotonic(), pause=5)
        assert slurm.job(waiting) == "PENDING"
        assert reasons(slurm) == {name: "k8s: pod not ready"}
    in_time(lambda: reasons(slurm) == {})
    slurm.ends(waiting, seconds=PATIENCE)
    assert fate(slurm, second) == ("RUNNING", "0")
    tell_over(slurm, second)
    slurm.ends(second)
    assert (fate(slurm, first), uid_of(slurm, name)) == (("COMPLETED", "0"), before)


def test_a_slurmd_that_is_killed_under_a_job_comes_back_beside_it(slurm: Release) -> None:
    """M3: by s6, in the same container."""
    name, _ = exposed(slurm)
    before = uid_of(slurm, name)
    job = slurm.submit(f"{BEGINS}; {LASTING}", "-w", name)
    # One whose prolog still waits would lose its script with this slurmd.
    begins(slurm, name, job, seconds=PATIENCE)
    killed = slurmd(slurm, name)
    inside(slurm, name, "pkill", "--signal", "KILL", "--exact", "slurmd")
    in_time(lambda: slurmd(slurm, name) not in {"-1", killed})
    in_time(lambda: reasons(slurm) == {})
    assert fate(slurm, job) == ("RUNNING", "0")
    tell_over(slurm, job)
    slurm.ends(job)
    assert (slurm.job(job, "Restarts"), uid_of(slurm, name)) == ("0", before)
    assert slurm("srun", "-w", name, "hostname").strip() == name


def test_a_node_that_registers_again_keeps_its_pod_and_its_job(slurm: Release, cluster: LocalCluster) -> None:
    name, node = exposed(slurm)
    before = uid_of(slurm, name)
    job = slurm.submit(LASTING, "-w", name)
    slurm.runs(job)
    in_time(lambda: told(slurm, node, names.SLURM_RUNNING) != "")
    slurm.kubectl("delete", "node", node)
    kubelet.register(slurm.kubectl, cluster, node, kind="cpu")
    in_time(lambda: claimed(slurm, node))
    in_time(lambda: told(slurm, node, names.SLURM_RUNNING) != "")
    in_time(lambda: reasons(slurm) == {})
    assert (fate(slurm, job), uid_of(slurm, name)) == (("RUNNING", "0"), before)
    tell_over(slurm, job)
    slurm.ends(job)


def test_a_node_that_is_gone_leaves_and_joins_when_it_is_back(
    slurm: Release, cluster: LocalCluster, unrest: Unrest
) -> None:
    name, node = exposed(slurm)
    before = uid_of(slurm, name)
    slurm.kubectl("delete", "node", node)
    try:
        # How long it is gone counts from when its operator has missed it, and from the beginning for every other operator: whoever
        # follows the one that is killed now has to live for as long.
        with unrest.sparing("sunk-controller-manager"):
            in_time(lambda: name not in members(slurm))
        assert uid_of(slurm, name) == ""
        assert name not in slurm("scontrol", "show", "nodes", "--oneliner")
    finally:
        kubelet.register(slurm.kubectl, cluster, node, kind="cpu")
    in_time(lambda: name in slurm.idle())
    assert uid_of(slurm, name) != before
    assert claimed(slurm, node)


def test_what_changes_while_slurmctld_is_away_is_told_when_it_is_back(slurm: Release) -> None:
    busy, busy_node = exposed(slurm)
    quiet = next(name for name in slurm.idle() if name != busy)
    before = slurm.pods("compute")
    job = slurm.submit(f"{BEGINS}; {LASTING}", "--exclusive", "-w", busy)
    # A prolog that still waits would wait for a syncer, and a new one of those for slurmctld.
    begins(slurm, busy, job, seconds=PATIENCE)
    with cordoned(slurm, node_of(slurm, quiet), "disk"):
        in_time(lambda: reasons(slurm) == {quiet: "k8s: cordon: disk"})
        in_time(lambda: told(slurm, busy_node, names.SLURM_RUNNING) != "")
        slurm.install({"controller": {"replicas": 0}})
        in_time(lambda: slurm.pods("controller") == [])
    with cordoned(slurm, busy_node, "fan"):
        try:
            # All of this nobody can tell Slurm now, nor can slurmd tell that the job has ended.
            inside(slurm, busy, "touch", f"/tmp/over-{job}")  # noqa: S108 - where the job looks for it
            slurm.kubectl("patch", "nodeset", "slurm-cpu", "--type=merge", "-p", '{"spec": {"replicas": 2}}')
            throughout(lambda: slurm.pods("compute") == before, seconds=OUTAGE, pause=2)
        finally:
            slurm.install()
        in_time(lambda: slurm.pods("controller") != [])
        slurm.kubectl("rollout", "status", "deployment/slurm-controller", "--timeout=110s")
        slurm.ends(job, seconds=PATIENCE)
        in_time(lambda: reasons(slurm) == {busy: "k8s: cordon: fan"})
        assert fate(slurm, job) == ("COMPLETED", "0")
        in_time(lambda: len(slurm.pods("compute")) == len(before) - 1)
    slurm.kubectl("patch", "nodeset", "slurm-cpu", "--type=json", "-p", '[{"op": "remove", "path": "/spec/replicas"}]')
    in_time(lambda: reasons(slurm) == {})
