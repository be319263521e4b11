"""A thousand orders at once: slurmctld takes its time for them, and none of them ends because of that."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.slurm.asking import node

from sunk.slurm.libslurm.description import JobDescription
from sunk.slurm.libslurm.library import Library
from sunk.slurm.orders.jobs import JobOrders
from sunk.slurm.orders.nodes import Orders

MANY = 1000
PLAIN = ("n1", "n2")
"""A reason outlives its drain, and of g1 another test expects none."""


@pytest.fixture
def narrow(library: Library) -> Iterator[Library]:
    """One thread and little patience: a thousand calls take longer than one may."""
    made = Library(library.wire, threads=1, patience=2)
    yield made
    made.close()


async def test_a_thousand_cancels_at_once_all_succeed(library: Library, narrow: Library) -> None:
    jobs = JobOrders(narrow)
    held = JobDescription(name="held", min_nodes=1, memory=10, priority=0)
    given = await asyncio.gather(*(jobs.allocate(held) for _ in range(MANY)))
    numbers = {each.job for each in given}
    assert len(numbers) == MANY
    assert all(await asyncio.gather(*(jobs.cancel(number) for number in numbers)))
    table = await library.jobs()
    assert table
    ended = {job.id for job in table.rows if job.state.ended}
    assert numbers <= ended


async def test_a_thousand_drains_at_once_all_succeed(library: Library, narrow: Library) -> None:
    orders = Orders(narrow)
    drains = (orders.drain([PLAIN[turn % len(PLAIN)]], reason=f"k8s: test {turn}") for turn in range(MANY))
    assert all(each.done for each in await asyncio.gather(*drains))
    assert all([(await node(library, name)).state.draining for name in PLAIN])
