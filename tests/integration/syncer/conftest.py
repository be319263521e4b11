"""A stage for each file of tests: a namespace of Kubernetes, a Slurm, and the syncer between them."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import pytest
import pytest_asyncio
from tests import policies
from tests.integration.syncer.stage import CLUSTER, Stage, staged

from sunk.kube.api.client import Client
from sunk.kube.auth import access
from sunk.kube.core import NAMESPACES
from sunk.kube.errors import NotFound
from sunk.local import slurm as slurms
from sunk.local.artifacts import images
from sunk.local.kubernetes.cluster import LocalCluster
from sunk.local.slurm import Slurm


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of a file once for each of its `VERSIONS` of Slurm, if it names some."""
    versions = getattr(metafunc.module, "VERSIONS", ())
    if versions and "slurm_version" in metafunc.fixturenames:
        metafunc.parametrize("slurm_version", versions, indirect=True, scope="module")


@pytest.fixture(scope="module")
def slurm_version(request: pytest.FixtureRequest) -> str:
    return str(getattr(request, "param", images.DEFAULT))


@pytest.fixture(scope="module")
def slurm_of_file(request: pytest.FixtureRequest, slurm_version: str) -> Iterator[Slurm]:
    """A Slurm without nodes; a file that wants another one says so in `SLURM`."""
    with slurms.cluster(**{"version": slurm_version} | getattr(request.module, "SLURM", {})) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(
    request: pytest.FixtureRequest,
    policed: LocalCluster,
    slurm_of_file: Slurm,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Stage]:
    """Shared by the tests of a file; `SYNCER` in it gives further words for the syncer's command line."""
    namespace = f"test-{secrets.token_hex(4)}"
    words = getattr(request.module, "SYNCER", ())
    async with Client(access.from_kubeconfig(policed.kubeconfig)) as client:
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        await _given_an_account(client, namespace)
        token = await policies.account(client, namespace, cluster=CLUSTER)
        limited = tmp_path_factory.mktemp("syncer") / "kubeconfig"
        policies.write_kubeconfig(limited, policed.kubeconfig, token=token)
        async with policies.speaking(policed.kubeconfig, token, namespace=namespace):
            pass  # its rights and the policies hold from here on
        async with staged(client, namespace, api=policed, slurm=slurm_of_file, kubeconfig=limited, words=words) as made:
            yield made
        await client.delete(NAMESPACES, namespace)


async def _given_an_account(client: Client, namespace: str) -> None:
    """Wait for the account that every Pod gets: without it the API server refuses Pods."""
    async with asyncio.timeout(120):
        while True:
            with suppress(NotFound):
                await client.request("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/default")
                return
            await asyncio.sleep(0.02)
