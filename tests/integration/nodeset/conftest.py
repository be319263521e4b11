"""A stage for each test: three Nodes, the controller running, and CRDs as `make generate` writes them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import yaml
from tests.conftest import Kube
from tests.integration.nodeset.stage import Operator, Stage, fleet_of

from sunk.kube import access
from sunk.kube.client import Client
from sunk.kube.errors import AlreadyExists, NotFound, TooManyRequests
from sunk.kube.resource import Record, Resource
from sunk.local.cluster import Cluster
from sunk.local.fakekubelet import fake_kubelet
from sunk.model.generate import crd_yaml
from sunk.model.kinds import KINDS

DEFINITIONS = Resource(
    Record, version="v1", plural="customresourcedefinitions", group="apiextensions.k8s.io", namespaced=False
)
Staging = Callable[..., AbstractAsyncContextManager[Stage]]


@pytest.fixture(scope="session")
def installed(api: Cluster) -> Cluster:
    """The API server with our CRDs."""
    asyncio.run(_install(api))
    return api


async def _install(api: Cluster) -> None:
    async with Client(access.from_kubeconfig(api.kubeconfig)) as client, asyncio.timeout(60):
        for kind in KINDS:
            try:
                await client.create(DEFINITIONS, yaml.safe_load(crd_yaml(kind)))
            except AlreadyExists:
                continue
        for kind in KINDS:
            while not await _served(client, f"/apis/{kind.api_version}/{kind.plural}"):
                await asyncio.sleep(0.05)


async def _served(client: Client, path: str) -> bool:
    try:
        await client.request("GET", path)
    except (NotFound, TooManyRequests):
        return False
    return True


@pytest.fixture
def staging(kube: Kube, installed: Cluster) -> Staging:
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
