"""A node comes back at another address, as a Pod that was recreated does: Slurm itself learns it, with nobody's help.

M13. Here is neither a syncer nor Kubernetes that could have put it right. `tests/e2e/slurmcluster/test_mishaps.py` shows
the same with a Pod.
"""

import re
from collections.abc import Iterator

import pytest
from tests.versions import BOTH
from tests.waiting import eventually

from sunk.local import slurm as slurms
from sunk.local.shell import run
from sunk.local.slurm import Slurm
from sunk.local.slurm.boxes import network
from sunk.local.slurm.configuration import CONTROLLER

NAMES = ["n1", "n2", "n3"]
ELSEWHERE = network.address(5000)
NOBODY = network.address(5001)
JOB = "srun hostname > /home/alice/hosts"
ALICE = 1001


@pytest.fixture(params=BOTH)
def three(request: pytest.FixtureRequest) -> Iterator[Slurm]:
    with slurms.cluster(nodes=3, version=request.param) as it:
        yield it


def address(it: Slurm, node: str) -> str:
    """Where slurmctld calls it."""
    return str(re.findall(r"NodeAddr=(\S+)", it.run("scontrol", "show", "node", node))[0])


def move(it: Slurm, node: str) -> None:
    """Give its machine another address; its name still leads to the old one, as a resolver's memory does for a while."""
    inside = ("ip", "-netns", network.namespace(it.layout.cluster, node))
    run([*inside, "address", "flush", "dev", "eth0"])
    run([*inside, "address", "add", f"{ELSEWHERE}/{network.BLOCK.prefixlen}", "dev", "eth0"])


def test_a_job_that_waits_for_a_node_at_another_address_runs_there(three: Slurm) -> None:
    before = address(three, "n2")
    busy = three.run("sbatch", "--parsable", "--output=/dev/null", "-w", "n1", "--exclusive", "--wrap=sleep 600")
    three.expect("n1", "ALLOCATED")
    queued = three.run(
        "sbatch", "--parsable", "--chdir=/tmp", "--output=/dev/null", "-N3", f"--wrap={JOB}", uid=ALICE
    ).strip()
    three.kill("n2")
    move(three, "n2")
    three.start("n2")
    eventually(lambda: address(three, "n2") == ELSEWHERE, seconds=180)
    assert before != ELSEWHERE
    three.run("scancel", busy.strip())

    # From a node, which has to find the others, and from where people log in.
    eventually(lambda: "JobState=COMPLETED" in three.run("scontrol", "show", "job", queued), seconds=240)
    assert sorted(three.path("/home/alice/hosts", on="n1").read_text().split()) == NAMES
    assert sorted(three.run("srun", "-N3", "hostname").split()) == NAMES


@pytest.mark.full
def test_an_address_that_is_wrong_stays_wrong_until_slurmd_restarts(three: Slurm) -> None:
    """So the syncer has such a Pod recreated: a slurmd registers when it starts, and not when nobody calls it."""
    right = address(three, "n2")
    three.run("scontrol", "update", "nodename=n2", f"nodeaddr={NOBODY}", on=CONTROLLER)
    three.expect("n2", "DOWN", without=(), timeout=240)
    assert address(three, "n2") == NOBODY
    three.stop("n2")
    three.start("n2")
    assert address(three, "n2") == right
    assert sorted(three.run("srun", "-N3", "hostname").split()) == NAMES
