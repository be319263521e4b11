"""What Slurm makes of a record that is born drained, by slurmd's own line: no job, until somebody lifts it; and never again.

Both releases, and no syncer: what `sunk.model.contract.drains.BORN_DRAINED` is built on.
"""

from collections.abc import Iterator

import pytest
from tests.versions import BOTH
from tests.waiting import eventually

from sunk.local import slurm as slurms
from sunk.local.slurm import Node, Slurm
from sunk.local.slurm.configuration import CONTROLLER
from sunk.model.contract import drains

pytestmark = pytest.mark.timeout(900)

ANSWERS = ("NOT_RESPONDING",)


@pytest.fixture(scope="module", params=BOTH)
def slurm(request: pytest.FixtureRequest) -> Iterator[Slurm]:
    with slurms.cluster(version=request.param) as made:
        yield made


def born(name: str, *options: str) -> Node:
    return Node(name, more=drains.BORN_DRAINED, options=options)


def reason(it: Slurm, name: str) -> str:
    """Why a node is drained; empty if it is not."""
    return it.run("sinfo", "--noheader", "-n", name, "-t", "drain", "-o", "%E", on=CONTROLLER).strip()


def undrain(it: Slurm, name: str) -> None:
    it.run("scontrol", "update", f"nodename={name}", "state=undrain", on=CONTROLLER)
    it.expect(name, "IDLE")


def everything_restarts(it: Slurm, name: str) -> Iterator[str]:
    """After each of these the node is what it was."""
    it.stop(name)
    it.start(name)
    yield "slurmd"
    it.kill(name)
    it.start(name)
    yield "the machine"
    it.stop(CONTROLLER)
    it.start(CONTROLLER)
    it.expect(name, "IDLE", without=ANSWERS)
    yield "slurmctld"
    it.run("scontrol", "reconfigure", on=CONTROLLER)
    it.expect(name, "IDLE", without=ANSWERS)
    yield "reconfigure"


@pytest.mark.parametrize("options", [(), ("-b",)], ids=["plain", "as after a boot"])
def test_it_is_drained_until_it_is_lifted_and_never_again(slurm: Slurm, options: tuple[str, ...]) -> None:
    name = f"a{len(options)}"
    slurm.add(born(name, *options))
    job = slurm.run("sbatch", "--parsable", "--output=/dev/null", "-w", name, "--wrap", "true", on=CONTROLLER).strip()
    for what in everything_restarts(slurm, name):
        assert reason(slurm, name) == drains.NEW, what
    shown = slurm.run("squeue", "--noheader", "-j", job, "-o", "%T", on=CONTROLLER).strip()
    assert shown == "PENDING", "no job started meanwhile"
    undrain(slurm, name)
    eventually(lambda: "COMPLETED" in slurm.run("scontrol", "show", "job", job, on=CONTROLLER), seconds=180)
    for what in everything_restarts(slurm, name):
        slurm.expect(name, "IDLE")
        assert reason(slurm, name) == "", what


def test_a_record_that_is_made_again_is_born_so_too(slurm: Slurm) -> None:
    slurm.add(born("b1"))
    undrain(slurm, "b1")
    slurm.kill("b1")
    slurm.run("scontrol", "delete", "nodename=b1", on=CONTROLLER)
    slurm.start("b1")
    assert reason(slurm, "b1") == drains.NEW
