"""A Slurm of three nodes for tests that leave it as they found it, and an API server that has what the chart installs."""

import asyncio
from collections.abc import Iterator

import pytest
from tests import crds, policies

from sunk.local import slurm as slurms
from sunk.local.kubernetes.cluster import LocalCluster
from sunk.local.slurm import Slurm


@pytest.fixture(scope="session")
def slurm() -> Iterator[Slurm]:
    """Shared by the run. A test that kills or reconfigures something starts a cluster of its own, in a second."""
    with slurms.cluster(nodes=3, gpus=("h100",)) as started:
        yield started


@pytest.fixture(scope="session")
def policed(api: LocalCluster) -> LocalCluster:
    """The API server with our CRDs, and with the policies for syncers."""
    asyncio.run(crds.install(api))
    policies.install(api)
    return api
