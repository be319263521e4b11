"""libslurm as it is compiled into our image, on a real slurmctld with real slurmd: see `tests/slurm`."""

import pytest

from sunk.local import slurm as slurms
from sunk.local.slurm import Node, pytest_inside

NODES = ("n1", "n2", Node("g1", cpus=64, memory=512000, features=("h100", "nvlink"), gres="gpu:h100:8"))


@pytest.mark.parametrize("version", ["24.11", pytest.param("26.05", marks=pytest.mark.full)])
def test_the_binding_reads_and_orders(version: str) -> None:
    with slurms.cluster(nodes=NODES, gpus=["h100"], version=version) as it:
        results = pytest_inside(it, "tests/slurm")
        assert {each.outcome for each in results} == {"passed"}
