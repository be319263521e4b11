"""A Slurm of three nodes for tests that leave it as they found it."""

from collections.abc import Iterator

import pytest

from sunk.local import slurm as slurms
from sunk.local.slurm import Slurm


@pytest.fixture(scope="session")
def slurm() -> Iterator[Slurm]:
    """Shared by the run. A test that kills or reconfigures something starts a cluster of its own, in a second."""
    with slurms.cluster(nodes=3, gpus=("h100",)) as started:
        yield started
