"""A stage for each test: three Nodes, the controller running, and CRDs as `make generate` writes them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from tests import crds
from tests.conftest import Kube
from tests.integration.nodeset.stage import Operator, Stage, fleet_of

from sunk.local.fakekubelet import fake_kubelet
from sunk.local.kubernetes.cluster import LocalCluster

Staging = Callable[..., AbstractAsyncContextManager[Stage]]


@pytest.fixture(scope="session")
def installed(api: LocalCluster) -> LocalCluster:
    """The API server with our CRDs."""
    asyncio.run(crds.install(api))
    return api


@pytest.fixture
def staging(kube: Kube, installed: LocalCluster) -> Staging:
    """How to make a stage with a fleet of its own, in a block: `staging(nodes=5) as stage`."""
    del installed

    @asynccontextmanager
    async def make(**fleet: Any) -> AsyncIterator[Stage]:
        async with fake_kubelet(fleet_of(kube, **fleet), kubeconfig=kube.kubeconfig) as kubelet:
            made = Stage(kube, kubelet)
            await made.open()
            try:
                yield made
            finally:
                await made.close()

    return make


@pytest.fixture
async def stage(staging: Staging) -> AsyncIterator[Stage]:
    """Three Nodes."""
    async with staging() as made:
        yield made


@pytest.fixture
async def operator(kube: Kube, stage: Stage) -> AsyncIterator[Operator]:
    """The controller, running from the first moment."""
    del stage
    async with Operator(kube) as made:
        yield made
