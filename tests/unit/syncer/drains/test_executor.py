"""What an order takes from somebody else is put back, whatever becomes of Slurm meanwhile."""

import asyncio

import pytest
from tests.unit.slurm.scripted import gone
from tests.unit.syncer.builders import drained, pod, row
from tests.unit.syncer.scripted import staged

from sunk.slurm.errors import Denied, refusal
from sunk.slurm.libslurm.wire import NodeChange
from sunk.slurm.records import Node
from sunk.slurm.states import NodeFlag

pytestmark = pytest.mark.looptime


def lifting(change: NodeChange) -> tuple[Node, ...]:
    """Somebody drains a node in the moment in which our drain of it is lifted."""
    return (drained(change.names, reason="alice: fan"),) if change.state == NodeFlag.UNDRAIN.value else ()


@pytest.mark.parametrize("flag", [NodeFlag.DRAIN, NodeFlag.FAIL])
async def test_what_somebody_else_put_on_at_the_moment_of_an_undrain_is_put_back_and_said(flag: NodeFlag) -> None:
    async with staged(["n1"]) as stage:
        stage.put(pod("n1", cordon="disk"))
        await asyncio.sleep(1)
        stage.slurm.in_between = lambda change: (
            (row("n1", flag, reason="alice: fan", reason_uid=7),) if change.state == NodeFlag.UNDRAIN.value else ()
        )
        stage.put(pod("n1"))
        await asyncio.sleep(1)
        found = stage.slurm.node("n1")
        assert found is not None
        assert (found.state.flags, found.reason) == (flag, "alice: fan")
        assert stage.drains.statistics().counts.restored == 1
        assert stage.context.recorder.statistics().recorded == 1


async def test_what_an_undrain_took_before_slurm_fell_silent_is_put_back_when_slurm_answers() -> None:
    async with staged(["n1"]) as stage:
        stage.put(pod("n1", cordon="disk"))
        await asyncio.sleep(1)
        stage.slurm.in_between = lifting
        stage.slurm.falls_silent = True
        stage.put(pod("n1"))
        await asyncio.sleep(30)
        assert not stage.slurm.is_drained("n1")
        stage.slurm.away = None
        await asyncio.sleep(40)
        assert stage.slurm.drains()[1:] == [("n1", None), ("n1", "alice: fan")]
        assert stage.slurm.is_drained("n1")


async def test_a_drain_that_could_not_be_put_back_is_put_back_when_slurm_answers() -> None:
    async with staged(["n1"]) as stage:
        stage.put(pod("n1", cordon="disk"))
        await asyncio.sleep(1)
        stage.slurm.in_between = lifting
        stage.slurm.refuses = lambda change: gone() if change.reason == "alice: fan" else None
        stage.put(pod("n1"))
        await asyncio.sleep(1)
        assert not stage.slurm.is_drained("n1")
        stage.slurm.refuses = lambda _: None
        await asyncio.sleep(40)
        assert stage.slurm.drains()[1:] == [("n1", None), ("n1", "alice: fan")]


async def test_a_drain_that_slurm_refuses_to_take_back_holds_up_nobody() -> None:
    async with staged(["n1", "n2"]) as stage:
        stage.put(pod("n1", cordon="disk"))
        await asyncio.sleep(1)
        stage.slurm.in_between = lifting
        denied = Denied(2002, asked="update n1")
        stage.slurm.refuses = lambda change: denied if change.reason == "alice: fan" else None
        stage.put(pod("n1"))
        await asyncio.sleep(1)
        stage.put(pod("n2", cordon="disk"))
        await asyncio.sleep(1)
        assert stage.slurm.is_drained("n2")


@pytest.mark.parametrize("number", [5005, 1000])
async def test_what_an_undrain_took_before_the_connection_broke_is_put_back(number: int) -> None:
    async with staged(["n1"]) as stage:
        stage.put(pod("n1", cordon="disk"))
        await asyncio.sleep(1)
        broken, stage.slurm.in_between = refusal(number, asked="update node n1"), lifting
        stage.slurm.breaks = lambda change: broken if change.state == NodeFlag.UNDRAIN.value else None
        stage.put(pod("n1"))
        await asyncio.sleep(30)
        assert stage.slurm.drains()[1:] == [("n1", None), ("n1", "alice: fan")]


async def test_a_drain_of_a_silent_node_is_put_back_though_that_of_another_is_refused() -> None:
    async with staged(["n1", "n2"]) as stage:
        stage.put(pod("n1", cordon="disk"), pod("n2", cordon="disk"))
        await asyncio.sleep(1)
        stage.slurm.in_between = lifting
        wrong = {"n1": Denied(2002, asked="update node n1"), "n2": gone()}
        stage.slurm.refuses = lambda change: wrong.get(change.names) if change.reason == "alice: fan" else None
        stage.put(pod("n1"), pod("n2"))
        await asyncio.sleep(1)
        del wrong["n2"]
        await asyncio.sleep(40)
        assert stage.slurm.is_drained("n2")
        assert not stage.slurm.is_drained("n1")


async def test_a_drain_that_is_not_put_back_for_no_known_reason_stays_owed_and_holds_up_nobody() -> None:
    async with staged(["n1", "n2"]) as stage:
        stage.put(pod("n1", cordon="disk"))
        await asyncio.sleep(1)
        stage.slurm.in_between = lifting
        odd = refusal(1000, asked="update node n1")
        stage.slurm.refuses = lambda change: odd if change.reason == "alice: fan" else None
        stage.put(pod("n1"))
        await asyncio.sleep(20)
        stage.put(pod("n2", cordon="disk"))
        await asyncio.sleep(1)
        assert stage.slurm.is_drained("n2")
        assert "n1" in " ".join(stage.drains.report().stuck)
        stage.slurm.refuses = lambda _: None
        await asyncio.sleep(40)
        assert stage.slurm.is_drained("n1")
        assert not stage.drains.report().stuck


async def test_a_text_that_an_undrain_has_left_tells_that_somebody_elses_drain_was_lifted() -> None:
    """Slurm 24.11 keeps it, so nothing is lost there even if no read saw it in time."""
    async with staged(["n1"]) as stage:
        stage.put(pod("n1", cordon="disk"))
        await asyncio.sleep(1)

        def drain(change: NodeChange) -> tuple[Node, ...]:
            if change.state == NodeFlag.UNDRAIN.value:
                stage.slurm.put(drained("n1", reason="alice: fan", reason_time=5))
            return ()

        stage.slurm.in_between = drain
        stage.put(pod("n1"))
        await asyncio.sleep(1)
        assert stage.slurm.is_drained("n1")
        assert stage.slurm.drains()[-1] == ("n1", "alice: fan")


async def test_a_drain_that_ours_overwrote_is_put_back() -> None:
    async with staged(["n1"]) as stage:
        stage.slurm.in_between = lambda change: (
            (drained("n1", reason="alice: fan"),) if (change.reason or "").startswith("k8s:") else ()
        )
        stage.put(pod("n1", cordon="disk"))
        await asyncio.sleep(1)
        assert stage.slurm.drains() == [("n1", "k8s: cordon: disk"), ("n1", "alice: fan")]
