"""What becomes of the jobs of a partition that is to go, on a real Slurm."""

from tests.box import wait_for

from sunk.local import slurm as slurms
from sunk.local.slurm import Node, Slurm
from sunk.operator.slurmcluster.slurmconf.partitions import retiring

STAYING = "PartitionName=all Nodes=ALL Default=YES State=UP"
END = "/run/job-may-end"
"""On its node: until the configuration has changed, the first job has to run."""
GOING = ("NodeSet=g Feature=g", "PartitionName=g Nodes=g State=UP")


def states(it: Slurm) -> list[str]:
    rows = it.run("squeue", "--noheader", "--states=all", "--format=%i %T").splitlines()
    return sorted(row.strip() for row in rows)


def test_jobs_that_run_or_wait_in_a_partition_that_is_to_go_come_to_their_end() -> None:
    with slurms.cluster(nodes=[Node("n1", features=("g",))], lines=(STAYING, *GOING)) as it:
        submit = ("sbatch", "--partition=g", "--ntasks=2", "--output=/dev/null")
        it.run(*submit, f"--wrap=until [ -e {END} ]; do sleep 0.2; done")
        it.run(*submit, "--wrap=true")
        wait_for(lambda: states(it) == ["1 RUNNING", "2 PENDING"], what="one job that runs and one that waits")
        kept = retiring("\n".join((STAYING, *GOING)), STAYING)
        it.configure(lines=(STAYING, *kept))
        it.run("touch", END, on="n1")
        wait_for(lambda: states(it) == ["1 COMPLETED", "2 COMPLETED"], what="the end of both", patience=120)
        assert it.attempt(*submit, "--wrap=true").code != 0
