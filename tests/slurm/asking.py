"""What the tests in here ask of Slurm again and again."""

import asyncio
from collections.abc import Awaitable, Callable

from sunk.local.slurm.remote import Remote
from sunk.slurm.libslurm.library import Library
from sunk.slurm.records import Job, Node
from sunk.slurm.states import NodeBase, NodeFlag, NodeState

NODES = ("n1", "n2", "g1")
MADE = "made"
"""Begins the names of nodes that tests create: one whose deletion was not written down comes back with slurmctld, which
then takes half a minute to find that nobody has such a name."""
PATIENCE = 120.0
"""Seconds. On a machine with much to do each of those who take part may stand still for ten."""
SAVED = "/var/spool/slurmctld/node_state"


async def node(library: Library, name: str) -> Node:
    return next(node for node in (await library.all_nodes()).rows if node.name == name)


async def job(library: Library, number: int) -> Job:
    (found,) = await library.job(number)
    return found


async def until(check: Callable[[], Awaitable[bool]], *, seconds: float = PATIENCE) -> None:
    async with asyncio.timeout(seconds):
        while not await check():
            await asyncio.sleep(0.05)


async def until_saved(cluster: Remote, *texts: str) -> None:
    """Wait for slurmctld to write down what it knows, which it does some seconds late: killed before, it forgets it."""

    async def holds(text: str) -> bool:
        return (await asyncio.to_thread(cluster.attempt, "grep", "-q", text, SAVED, on="controller")).code == 0

    async def saved() -> bool:
        return all([await holds(text) for text in texts]) and not await holds(MADE)

    await until(saved)


async def until_usable(library: Library) -> None:
    async def usable() -> bool:
        rows = (await library.all_nodes()).rows
        return all(_usable(node.state) for node in rows if node.name in NODES)

    await until(usable)


def _usable(state: NodeState) -> bool:
    return state.base is NodeBase.IDLE and not state.flags & (
        NodeFlag.DRAIN | NodeFlag.COMPLETING | NodeFlag.NOT_RESPONDING
    )
