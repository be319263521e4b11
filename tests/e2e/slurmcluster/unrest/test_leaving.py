"""Pods and nodes go, by our wish or by somebody else's: no job that we could wait for is lost or restarted."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec import json
from tests.e2e.slurmcluster.release import Release
from tests.e2e.slurmcluster.sides import LASTING, fate, reasons, tell_over, uid_of
from tests.e2e.slurmcluster.unrest import ground
from tests.e2e.slurmcluster.unrest.ground import PATIENCE, exposed, in_time, throughout
from tests.waiting import eventually

pytestmark = ground.MARKS

KINDS = ground.KINDS
VALUES = ground.VALUES
HELD = "test.sunk/held"
"""A finalizer, so that a Pod that is about to go can be looked at for as long as one likes."""


def pods(slurm: Release) -> dict[str, str]:
    """Uids of compute Pods by name, also of those that are about to go."""
    found = json.decode(slurm.kubectl("get", "pods", "-l", "app.kubernetes.io/component=compute", "-o", "json"))
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in found["items"]}


def finalizers(slurm: Release, name: str, *wanted: str) -> None:
    body = json.encode({"metadata": {"finalizers": list(wanted)}}).decode()
    slurm.kubectl("patch", "pod", name, "--type=merge", "-p", body)


def test_a_pod_that_somebody_deletes_comes_back_and_its_job_runs_again(slurm: Release) -> None:
    name, _ = exposed(slurm)
    before = uid_of(slurm, name)
    job = slurm.submit(LASTING, "-w", name)
    slurm.runs(job)
    finalizers(slurm, name, HELD)
    try:
        slurm.kubectl("delete", "pod", name, "--wait=false")
        in_time(lambda: reasons(slurm) == {name: "k8s: pod terminated"})
        in_time(lambda: slurm.job(job, "Restarts") == "1")
    finally:
        finalizers(slurm, name)
    in_time(lambda: uid_of(slurm, name) not in {"", before})
    in_time(lambda: name in slurm.idle())
    slurm.starts_at_once(job)
    slurm.runs(job)
    tell_over(slurm, job)
    slurm.ends(job)
    assert slurm.job(job, "NodeList") == name


def test_kubectl_drain_of_a_busy_node_waits_for_the_job_and_then_passes(slurm: Release) -> None:
    """M2."""
    name, node = exposed(slurm)
    before = uid_of(slurm, name)
    job = slurm.submit(LASTING, "-w", name)
    slurm.runs(job)
    words = ("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", f"--timeout={2 * PATIENCE:.0f}s")
    try:
        with ThreadPoolExecutor(1) as pool:
            drain = pool.submit(slurm.kubectl, *words, timeout=3 * PATIENCE)
            in_time(lambda: reasons(slurm) == {name: "k8s: cordon"})
            waiting = slurm.submit("true", "-w", name)
            with pytest.raises(AssertionError, match="disruption budget"):
                evict(slurm, name)
            throughout(lambda: not drain.done() and uid_of(slurm, name) == before, seconds=10)
            assert fate(slurm, job) == ("RUNNING", "0")
            tell_over(slurm, job)
            assert f"pod/{name} evicted" in drain.result()
        assert fate(slurm, job) == ("COMPLETED", "0")
        assert slurm.job(waiting) == "PENDING"
        in_time(lambda: uid_of(slurm, name) not in {"", before})
    finally:
        slurm.kubectl("uncordon", node)
    slurm.ends(waiting, seconds=PATIENCE)


def evict(slurm: Release, name: str) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    path = f"/api/v1/namespaces/{slurm.kubectl.namespace}/pods/{name}/eviction"
    slurm.kubectl("create", "--raw", path, "-f", "-", stdin=json.encode(body).decode())


def test_a_scale_in_waits_for_the_job_and_no_other_comes(slurm: Release) -> None:
    before = pods(slurm)
    jobs = {name: slurm.submit(LASTING, "--exclusive", "-w", name) for name in before}
    for job in jobs.values():
        slurm.runs(job)
    slurm.kubectl("patch", "nodeset", "slurm-cpu", "--type=merge", "-p", '{"spec": {"replicas": 2}}')
    try:
        in_time(lambda: [*reasons(slurm).values()] == ["k8s: pending deletion"])
        (leaving,) = reasons(slurm)
        waiting = slurm.submit("true", "-w", leaving)
        throughout(lambda: pods(slurm) == before, seconds=10)
        tell_over(slurm, jobs[leaving])
        in_time(lambda: leaving not in pods(slurm))
        in_time(lambda: leaving not in slurm("scontrol", "show", "nodes", "--oneliner"))
        assert slurm.job(waiting) == "PENDING"
        slurm("scancel", waiting)
        staying = [job for name, job in jobs.items() if name != leaving]
        assert [fate(slurm, job) for job in staying] == [("RUNNING", "0")] * 2
        tell_over(slurm, *staying)
        for job in jobs.values():
            slurm.ends(job)
            assert slurm.job(job, "Restarts") == "0"
    finally:
        slurm.kubectl(
            "patch", "nodeset", "slurm-cpu", "--type=json", "-p", '[{"op": "remove", "path": "/spec/replicas"}]'
        )
    in_time(lambda: slurm.idle() == sorted(before))


def renewed(now: dict[str, str], before: dict[str, str]) -> bool:
    return now.keys() == before.keys() and not set(now.values()) & set(before.values())


def test_a_rolling_update_of_all_nodes_costs_no_job(slurm: Release) -> None:
    before = pods(slurm)
    running = [slurm.submit(LASTING, "--exclusive", "-w", name) for name in before]
    for job in running:
        slurm.runs(job)
    queued = [slurm.submit("sleep 5", "--exclusive") for _ in range(6)]
    slurm.install({"compute": {"nodes": {"cpu": {"env": [{"name": "ROUND", "value": "two"}]}}}})
    in_time(lambda: [*reasons(slurm).values()] == ["k8s: pending deletion"])
    throughout(lambda: pods(slurm) == before, seconds=10)
    assert [fate(slurm, job) for job in running] == [("RUNNING", "0")] * len(before)
    tell_over(slurm, *running)
    eventually(lambda: renewed(pods(slurm), before), seconds=2 * PATIENCE)
    for job in (*running, *queued):
        slurm.ends(job, seconds=PATIENCE)
        assert slurm.job(job, "Restarts") == "0"
    in_time(lambda: slurm.idle() == sorted(before))
    assert slurm("srun", "-N3", "sh", "-c", "echo $ROUND").split() == ["two"] * len(before)
