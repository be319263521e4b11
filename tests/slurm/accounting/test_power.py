"""Nodes are powered up and down when told. The cluster's programs for it do nothing, which is enough for Slurm."""

import asyncio

import pytest
from tests.slurm.asking import node, until

from sunk.local.slurm.remote import Remote
from sunk.slurm.libslurm.description import JobDescription
from sunk.slurm.libslurm.library import Library
from sunk.slurm.orders.jobs import JobOrders
from sunk.slurm.orders.nodes import Orders
from sunk.slurm.states import NodeFlag

GOING = NodeFlag.POWERED_DOWN | NodeFlag.POWERING_DOWN


async def _has(library: Library, name: str, flags: NodeFlag) -> bool:
    return bool((await node(library, name)).state.flags & flags)


async def test_a_cloud_node_is_powered_up_and_down(library: Library, orders: Orders) -> None:
    await orders.create(["made1"], line="CPUs=4 State=CLOUD")
    assert await _has(library, "made1", NodeFlag.POWERED_DOWN)
    assert (await node(library, "made1")).state.in_power_saving
    for _ in range(2):
        assert (await orders.power_up(["made1", "ghost"])).done == ("made1",)
    await until(lambda: _has(library, "made1", NodeFlag.POWERING_UP))
    for _ in range(2):
        assert (await orders.power_down(["made1"])).done == ("made1",)
    await until(lambda: _has(library, "made1", GOING | NodeFlag.POWER_DOWN))
    await orders.delete(["made1"])


async def test_a_node_with_a_job_is_powered_down_only_when_it_is_idle(
    library: Library, orders: Orders, jobs: JobOrders, cluster: Remote
) -> None:
    await asyncio.to_thread(cluster.add, "p1")
    given = await jobs.allocate(JobDescription(name="busy", wanted_nodes="p1", min_nodes=1, memory=10))
    await orders.power_down(["p1"])
    found = await node(library, "p1")
    assert found.state.busy
    assert NodeFlag.POWER_DOWN in found.state
    assert not found.state.flags & GOING
    await jobs.cancel(given.job)
    await until(lambda: _has(library, "p1", GOING))
    await asyncio.to_thread(cluster.stop, "p1")
    await orders.delete(["p1"])


@pytest.mark.parametrize("order", ["power_up", "power_down"])
async def test_names_that_slurm_does_not_know_are_told(orders: Orders, order: str) -> None:
    outcome = await getattr(orders, order)(["ghost"])
    assert (outcome.done, outcome.unknown) == ((), ("ghost",))
