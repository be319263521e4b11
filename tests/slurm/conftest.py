"""These tests run inside our image, on a real cluster: `tests/integration/test_slurm_binding.py` takes them there."""

from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec

import pytest
from tests.slurm.asking import NODES, until_usable

from sunk.local.slurm.remote import Remote
from sunk.slurm.libslurm.library import Library
from sunk.slurm.orders.jobs import JobOrders
from sunk.slurm.orders.nodes import Orders

# Elsewhere there is no libslurm to test.
if find_spec("sunk.slurm.binding._libslurm") is None:
    collect_ignore_glob = ["test_*.py", "accounting/*", "crowded/*"]


@pytest.fixture
def library() -> Iterator[Library]:
    loaded = Library.load()
    yield loaded
    loaded.close()


@pytest.fixture
def orders(library: Library) -> Orders:
    return Orders(library)


@pytest.fixture
def jobs(library: Library) -> JobOrders:
    return JobOrders(library)


@pytest.fixture
def cluster() -> Remote:
    return Remote()


@pytest.fixture(autouse=True)
async def _left_as_found(library: Library, orders: Orders, jobs: JobOrders) -> AsyncIterator[None]:
    """Tests share the cluster, so each leaves it without jobs and with nodes that can be used and bear no text of it."""
    yield
    table = await library.jobs()
    for job in table.rows if table else ():
        if not job.state.ended:
            await jobs.cancel(job.id)
    await orders.undrain(NODES)
    await until_usable(library)
    seen = {node.name: node for node in (await library.all_nodes()).rows if node.name in NODES and node.reason}
    await orders.forget_reason(seen, seen=seen)
