"""libslurm as it is compiled into our image, on a real slurmctld with real slurmd: see `tests/slurm`."""

from collections.abc import Iterator

import pytest
from tests.versions import BOTH

from sunk.local import slurm as slurms
from sunk.local.slurm import Node, Slurm, pytest_inside
from sunk.local.slurm.configuration import Settings

pytestmark = pytest.mark.timeout(900)

NODES = ("n1", "n2", Node("g1", cpus=64, memory=512000, features=("h100", "nvlink"), gres="gpu:h100:8"))
APART = ("tests/slurm/test_commands.py", "tests/slurm/test_limits.py")


@pytest.fixture(scope="module", params=BOTH)
def bound(request: pytest.FixtureRequest) -> Iterator[Slurm]:
    # A slurmd that registers, which it does now and then, would bring back a node that a test has set down.
    config: Settings = {"ReturnToService": 1}
    with slurms.cluster(nodes=NODES, gpus=["h100"], version=request.param, config=config) as it:
        yield it


def test_the_binding_reads_and_orders(bound: Slurm) -> None:
    others = (f"--ignore={name}" for name in ("tests/slurm/accounting", "tests/slurm/crowded", *APART))
    assert {each.outcome for each in pytest_inside(bound, "tests/slurm", *others, timeout=800)} == {"passed"}


def test_people_see_what_slurm_says_and_its_limits_are_kept(bound: Slurm) -> None:
    assert {each.outcome for each in pytest_inside(bound, *APART, timeout=800)} == {"passed"}
