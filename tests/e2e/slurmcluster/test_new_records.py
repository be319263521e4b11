"""A machine that registers while no syncer runs takes no job, whatever is known about it (D13)."""

from tests.e2e.slurmcluster.release import Release, on
from tests.e2e.slurmcluster.sides import cordoned, node_of, reasons, seen, sunk, uid_of
from tests.waiting import eventually

from sunk.model.contract import drains

KINDS = ("cpu", "cpu", "cpu")
VALUES = {"accounting": {"enabled": False}, "compute": {"nodes": {"cpu": {"affinity": on("cpu")}}}}


def syncers(slurm: Release, number: int) -> None:
    patch = f'{{"spec": {{"syncer": {{"replicas": {number}}}}}}}'
    slurm.kubectl("patch", "slurmcluster", "slurm", "--type=merge", "-p", patch)
    # One that was told to go still looks at nodes until its Pod is gone.
    eventually(lambda: len(slurm.pods("syncer")) == number)


def made_again(slurm: Release, name: str) -> None:
    """Have Slurm forget a node, and its Pod started again."""
    slurm("scontrol", "delete", f"nodename={name}")
    before = uid_of(slurm, name)
    slurm.kubectl("delete", "pod", name, "--wait=false")
    eventually(lambda: uid_of(slurm, name) not in {"", before}, seconds=120)
    eventually(lambda: name in slurm("sinfo", "--noheader", "-N", "-o", "%N").split(), seconds=120)


def test_no_job_starts_on_a_new_record_before_the_syncer_has_looked(slurm: Release) -> None:
    held, free = slurm.idle()[:2]
    with cordoned(slurm, node_of(slurm, held), "disk"):
        eventually(lambda: reasons(slurm) == {held: "k8s: cordon: disk"})
        syncers(slurm, 0)
        try:
            for name in (held, free):
                made_again(slurm, name)
            assert reasons(slurm) == dict.fromkeys((held, free), drains.NEW)
            jobs = {name: slurm.submit("sleep 5", "-w", name) for name in (held, free)}
            assert [slurm.job(job) for job in jobs.values()] == ["PENDING", "PENDING"]
        finally:
            syncers(slurm, 1)
        slurm.ends(jobs[free])
        eventually(lambda: reasons(slurm) == {held: "k8s: cordon: disk"})
        assert slurm.job(jobs[held]) == "PENDING"
        assert "cordoned: disk" in sunk(slurm, "explain", "node", held).stdout
    slurm.ends(jobs[held])
    eventually(lambda: "DRAIN" not in seen(slurm, held).states)
    assert sunk(slurm, "verify", "--for", "1").returncode == 0
