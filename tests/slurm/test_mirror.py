"""The mirror on a real slurmctld: what happens there is seen soon, and its absence too."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable

import pytest
from tests.slurm.asking import PATIENCE, until, until_saved

from sunk.local.slurm.remote import Remote
from sunk.slurm.libslurm.library import Library
from sunk.slurm.mirror.confidence import Known, Stale, Unknown
from sunk.slurm.mirror.mirror import Mirror
from sunk.slurm.orders.nodes import Orders
from sunk.slurm.records import Node

MANY = "sim[0001-1000]"


@pytest.fixture
async def mirror(library: Library) -> AsyncIterator[Mirror]:
    made = Mirror(library)
    task = asyncio.create_task(made.run())
    await made.read_after()
    yield made
    task.cancel()
    await asyncio.wait({task})


async def shown(holds: Callable[[], bool]) -> None:
    """Wait until the mirror shows something, without asking it for a read."""
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0.005)


async def command(cluster: Remote, *words: str, on: str = "controller") -> str:
    """Run a command there while the loop in here goes on."""
    return await asyncio.to_thread(cluster.run, *words, on=on)


def draining(mirror: Mirror, name: str) -> bool:
    found = mirror.nodes.get(name)
    return found is not None and found.state.draining


async def test_what_a_person_does_is_seen_soon(mirror: Mirror, cluster: Remote) -> None:
    changed: list[tuple[str, Node | None, Node | None]] = []
    mirror.nodes.subscribe(lambda *change: changed.append(change))
    for _ in range(3):
        await command(cluster, "scontrol", "update", "nodename=n1", "state=drain", "reason=bad fan")
        await shown(lambda: draining(mirror, "n1"))
        await command(cluster, "scontrol", "update", "nodename=n1", "state=undrain")
        await shown(lambda: not draining(mirror, "n1"))
    # A node changes of itself too: it registers, it responds again.
    drains = [(before, after) for name, before, after in changed if name == "n1" and after and after.state.draining]
    before, after = drains[0]
    assert before is not None
    assert after is not None
    assert (before.state.draining, after.state.draining, after.reason) == (False, True, "bad fan")


async def test_who_has_written_sees_it_in_the_read_that_he_asks_for(mirror: Mirror, orders: Orders) -> None:
    for turn in range(30):
        # Within one second, so that the times in Slurm's answers cannot tell one turn from the next.
        await orders.drain(["n1"], reason=f"k8s: turn {turn}")
        await mirror.read_after()
        found = mirror.nodes.get("n1")
        assert found is not None
        assert found.reason == f"k8s: turn {turn}"
    mirror.require_fresh(within=PATIENCE)
    await orders.undrain(["n1"])


async def test_a_job_is_followed_from_its_begin_to_its_end(mirror: Mirror, cluster: Remote) -> None:
    number = int(
        await command(cluster, "sbatch", "--parsable", "--wrap", "sleep 600", "--output=/dev/null", on="login")
    )
    await shown(lambda: number in mirror.jobs)
    await command(cluster, "scancel", str(number))

    def ended() -> bool:
        found = mirror.jobs.get(number)
        return found is not None and found.state.ended

    await shown(ended)
    assert not mirror.suspicious


async def test_a_lost_slurmctld_is_unknown_soon_and_read_whole_when_it_is_back(
    mirror: Mirror, cluster: Remote, orders: Orders
) -> None:
    await orders.drain(["n1"], reason="k8s: before")
    await mirror.read_after()
    await until_saved(cluster, "k8s: before")
    counts = mirror.statistics().counts
    await asyncio.to_thread(cluster.stop, "controller", with_signal=signal.SIGKILL)
    await shown(lambda: isinstance(mirror.state, Unknown))
    assert draining(mirror, "n1"), "the rows stay"
    with pytest.raises(Stale, match="unknown for"):
        mirror.require_fresh(within=3600)
    with pytest.raises(Stale, match="could not be read"):
        await mirror.read_after()
    await asyncio.to_thread(cluster.start, "controller")
    await shown(lambda: isinstance(mirror.state, Known))
    assert mirror.statistics().counts.whole > counts.whole
    assert mirror.statistics().counts.restarts == counts.restarts + 1
    assert draining(mirror, "n1")
    assert not mirror.suspicious


async def test_a_thousand_nodes_come_and_go_while_they_are_read(
    mirror: Mirror, cluster: Remote, library: Library
) -> None:
    await command(cluster, "scontrol", "create", f"nodename={MANY}", "cpus=1", "state=cloud")
    await shown(lambda: len(mirror.nodes) >= 1003)
    names = [name for name in mirror.nodes.keys() if name.startswith("sim")]  # noqa: SIM118 - no dict
    mirror.expect_gone(names)
    deletion = asyncio.create_task(command(cluster, "scontrol", "delete", f"nodename={MANY}"))
    while not deletion.done():
        await mirror.read_after()
    await deletion
    await mirror.read_after()
    assert mirror.nodes.keys() == {node.name for node in (await library.all_nodes()).rows}
    assert not mirror.nodes.keys() & set(names)
    assert not mirror.suspicious
    await forgotten(cluster)


async def test_a_thousand_nodes_that_nobody_announced_to_go_are_suspicious(mirror: Mirror, cluster: Remote) -> None:
    await command(cluster, "scontrol", "create", f"nodename={MANY}", "cpus=1", "state=cloud")
    await shown(lambda: len(mirror.nodes) >= 1003)
    await command(cluster, "scontrol", "delete", f"nodename={MANY}")
    await mirror.read_after()
    with pytest.raises(Stale, match=r"1000 of 1003 nodes disappeared at once"):
        mirror.require_fresh(within=PATIENCE)
    mirror.accept()
    mirror.require_fresh(within=PATIENCE)
    await forgotten(cluster)


async def forgotten(cluster: Remote) -> None:
    """Wait until slurmctld has written that they are gone: one that is killed before brings them all back."""
    state = "$(scontrol show config | awk '/^StateSaveLocation/ {print $3}')/node_state"

    async def is_written() -> bool:
        return await command(cluster, "sh", "-c", f"grep -c sim0001 {state} || true") == "0\n"

    await until(is_written)


async def test_a_reconfigure_is_no_loss(mirror: Mirror, cluster: Remote) -> None:
    await command(cluster, "scontrol", "reconfigure")

    async def settled() -> bool:
        return isinstance(mirror.state, Known) and {"n1", "n2", "g1"} <= mirror.nodes.keys()

    await until(settled)
    assert not mirror.suspicious
