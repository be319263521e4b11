"""Real clusters for tests: a bare API for most of them, three nodes for the rest.

The bare API lives as long as the test run. A cluster with nodes takes longer to start, so it is left running for
the next run and replaced when the images it holds are no longer the ones that this tree builds. Two processes have one
each.
"""

import asyncio
import os
import secrets
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import hypothesis
import msgspec
import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from sunk.kube.api.client import Client
from sunk.kube.auth import access
from sunk.kube.core import NAMESPACES
from sunk.kube.errors import NotFound
from sunk.local.kubernetes import assets, cluster as clusters
from sunk.local.kubernetes.cluster import LocalCluster
from sunk.local.kubernetes.spec import ClusterSpec, plain

API_PREFIX = "test-api-"
CLUSTER = os.environ.get("SUNK_TEST_CLUSTER", "test")
"""The cluster with three nodes, and how the names of others of this run begin. Two clones that are tested side by side
need one each."""
WITH_NODES = ("gw0", "gw1")
"""Processes of a run that have a cluster with three nodes. Such tests mostly wait, so two of them at a time leave enough
of two cores to the third process, which has everything else to run."""
E2E, UNIT = "tests/e2e/", "tests/unit/"
E2E_LONGEST = 900
"""Seconds for a test with three nodes that says nothing else. The first one of a run brings the nodes up too, and the
first one of a module a Slurm cluster."""

# Clusters of tests are short of CPU and not of memory: what is written in Go collects garbage less often.
os.environ.setdefault("GOGC", "400")

# How long an example takes, or takes to be made up, says more about the machine than about the code; what must be quick
# is measured in bench/.
SLOW = (hypothesis.HealthCheck.too_slow,)
hypothesis.settings.register_profile("sunk", deadline=None, suppress_health_check=SLOW)
hypothesis.settings.load_profile("sunk")

# pytest-asyncio asks for "the current loop" before it sets its own. Python 3.11 then makes one that nobody closes,
# and a warning about it hits whichever test runs when it is collected. Once it was set to none, none is made.
asyncio.set_event_loop(None)


# A run in the background is begun with interrupts ignored, and all that it starts would ignore them too.
signal.signal(signal.SIGINT, signal.default_int_handler)


class InTurns(LoadScopeScheduling):  # type: ignore[misc] # it has no types
    """Deal tests to the processes of a run, a module at a time, and those that need three nodes to two of them alone."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0]

    def _assign_work_unit(self, node: WorkerController) -> None:
        chosen = next((module for module in self.workqueue if _may_run(module, node.gateway.id)), None)
        if chosen is None:
            node.shutdown()
            return
        self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)


def _may_run(module: str, process: str) -> bool:
    return process in WITH_NODES or not module.startswith(E2E)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> InTurns:
    return InTurns(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long comes first, so that no process is left with it at the end; else the order stays random."""
    items.sort(key=lambda item: (not item.nodeid.startswith(E2E), item.nodeid.startswith(UNIT)))
    for item in items:
        if item.nodeid.startswith(E2E) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(E2E_LONGEST))


class Kube(msgspec.Struct, frozen=True):
    """A real API server, and a namespace on it that no other test uses."""

    kubeconfig: Path
    namespace: str
    client: Client
    cluster: LocalCluster


@pytest.fixture(scope="session")
def api() -> Iterator[LocalCluster]:
    _clear_abandoned()
    made = clusters.up(ClusterSpec(name=f"{API_PREFIX}{os.getpid()}", nodes=()), assets=assets.fill(images=False))
    yield made
    clusters.down(made.name)


def _clear_abandoned() -> None:
    """End the clusters of test runs that were killed."""
    for name in clusters.names():
        run = name.removeprefix(API_PREFIX)
        # One with our own number is of a process that had it before us.
        if run != name and run.isdigit() and (int(run) == os.getpid() or not Path(f"/proc/{run}").exists()):
            clusters.remove(name)


@pytest.fixture
async def kube(api: LocalCluster) -> AsyncIterator[Kube]:
    namespace = f"test-{secrets.token_hex(4)}"
    async with Client(access.from_kubeconfig(api.kubeconfig)) as client:
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        await _given_an_account(client, namespace)
        yield Kube(kubeconfig=api.kubeconfig, namespace=namespace, client=client, cluster=api)
        await client.delete(NAMESPACES, namespace)


async def _given_an_account(client: Client, namespace: str) -> None:
    """Wait for the account that every Pod gets: without it the API server refuses Pods."""
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    async with asyncio.timeout(120):
        while True:
            with suppress(NotFound):
                await client.request("GET", account)
                return
            await asyncio.sleep(0.02)


class Kubectl(msgspec.Struct, frozen=True):
    """kubectl in a namespace of a cluster."""

    program: Path
    kubeconfig: Path
    namespace: str

    def __call__(self, *arguments: str, stdin: str | None = None, timeout: float = 120) -> str:
        where = ("--kubeconfig", str(self.kubeconfig), "--namespace", self.namespace)
        command = [str(self.program), *where, *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout, check=False)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr or done.stdout}"
        return done.stdout


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """Three nodes with our images, for this process alone, left running for the next run."""
    wanted, name = assets.fill(), _cluster_of(os.environ.get("PYTEST_XDIST_WORKER", WITH_NODES[0]))
    found = clusters.find(name)
    if found is None or not clusters.healthy(found) or found.images != wanted.images or _in_use(found).exists():
        clusters.remove(name)
        found = clusters.up(plain(name, count=3), assets=wanted)
    _in_use(found).touch()
    yield found
    _in_use(found).unlink()


def _in_use(cluster: LocalCluster) -> Path:
    """There while tests run on a cluster. Who finds it meets what a run that was killed has left on the nodes."""
    return cluster.folder / "in-use-by-tests"


def _cluster_of(process: str) -> str:
    return CLUSTER if process == WITH_NODES[0] else f"{CLUSTER}-{process}"


@pytest.fixture
def kubectl(cluster: LocalCluster) -> Iterator[Kubectl]:
    """Kubectl in a namespace that only this test uses, on the cluster with three nodes."""
    tool = Kubectl(
        program=assets.fill().parts.kubectl, kubeconfig=cluster.kubeconfig, namespace=f"test-{secrets.token_hex(4)}"
    )
    tool("create", "namespace", tool.namespace)
    yield tool
    tool("delete", "namespace", tool.namespace, "--wait=false")
