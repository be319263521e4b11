"""A Pod that reaches the syncer again is told so when the drain of its node is off."""

import asyncio

import pytest
from tests.unit.slurm.scripted import gone
from tests.unit.syncer.builders import drained, pod, row
from tests.unit.syncer.hooks.calls import call
from tests.unit.syncer.scripted import Stage, known, staged

from sunk.model.contract import hooks
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase, NodeFlag
from sunk.syncer.hooks.hello import PATIENCE, is_unreached

pytestmark = pytest.mark.looptime


async def says_hello(stage: Stage, name: str = "n1") -> int:
    return (await stage.hello(call(name))).status


def unreached(name: str = "n1") -> Node:
    return drained(name, reason=hooks.UNREACHED, extra=known(name).extra)


def test_the_drain_of_a_prolog_is_told_by_its_text_while_it_is_on() -> None:
    assert is_unreached(drained(reason=hooks.UNREACHED))
    assert is_unreached(drained(reason=f"{hooks.UNREACHED}: cordon: disk"))
    assert not is_unreached(row(reason=hooks.UNREACHED))
    assert not is_unreached(drained(reason="k8s: cordon: disk"))
    assert not is_unreached(drained(reason="bob: syncer not reached"))
    assert not is_unreached(None)


async def test_the_drain_stays_until_the_pod_calls_and_is_off_when_it_is_answered() -> None:
    async with staged(["n1"]) as stage:
        stage.slurm.put(unreached())
        await asyncio.sleep(30)
        assert stage.slurm.is_drained("n1")
        assert await says_hello(stage) == 200
        assert not stage.slurm.is_drained("n1")
        assert stage.slurm.drains() == [("n1", None)]


async def test_a_drain_that_no_read_has_shown_yet_is_waited_for() -> None:
    async with staged(["n1"]) as stage:
        stage.slurm.put(unreached())
        assert await says_hello(stage) == 200
        assert not stage.slurm.is_drained("n1")


async def test_a_node_without_such_a_drain_is_answered_with_the_next_read() -> None:
    async with staged(["n1"]) as stage:
        began = asyncio.get_running_loop().time()
        assert await says_hello(stage) == 200
        assert asyncio.get_running_loop().time() - began < 2
        assert stage.slurm.told == []


async def test_somebody_elses_drain_is_none_of_it() -> None:
    async with staged(["n1"]) as stage:
        stage.slurm.put(drained("n1", reason="alice: fan", extra=known("n1").extra))
        assert await says_hello(stage) == 200
        assert stage.slurm.drains() == []


async def test_a_cordon_that_came_meanwhile_stays() -> None:
    async with staged(["n1"]) as stage:
        stage.slurm.put(unreached())
        await asyncio.sleep(1)
        stage.put(pod("n1", cordon="disk"))
        await asyncio.sleep(5)
        assert stage.slurm.drains() == [("n1", f"{hooks.UNREACHED}: cordon: disk")]
        assert await says_hello(stage) == 200
        assert stage.slurm.drains()[1:] == [("n1", "k8s: cordon: disk")]


async def test_a_drain_that_is_set_after_the_answer_needs_another_call() -> None:
    async with staged(["n1"]) as stage:
        assert await says_hello(stage) == 200
        stage.slurm.put(unreached())
        await asyncio.sleep(30)
        assert stage.slurm.is_drained("n1")
        assert await says_hello(stage) == 200
        assert not stage.slurm.is_drained("n1")


async def test_a_standby_sends_the_pod_on() -> None:
    async with staged(["n1"]) as stage:
        stage.leads = False
        assert await says_hello(stage) == 503


async def test_a_drain_that_cannot_be_lifted_is_said_to_be_there_still() -> None:
    async with staged(["n1"]) as stage:
        down = row("n1", NodeFlag.DRAIN, base=NodeBase.DOWN, reason=hooks.UNREACHED, extra=known("n1").extra)
        stage.slurm.put(down)
        began = asyncio.get_running_loop().time()
        assert await says_hello(stage) == 503
        assert asyncio.get_running_loop().time() - began == pytest.approx(PATIENCE)
        assert stage.slurm.drains() == []


async def test_while_slurm_is_away_nobody_is_told_that_all_is_well() -> None:
    async with staged(["n1"]) as stage:
        stage.slurm.away = gone()
        await asyncio.sleep(1)
        assert await says_hello(stage) == 503


async def test_a_thousand_pods_are_lifted_in_a_few_calls() -> None:
    names = [f"n{number}" for number in range(1000)]
    async with staged(names) as stage:
        stage.slurm.put(*(unreached(name) for name in names))
        await asyncio.sleep(5)
        assert await asyncio.gather(*(says_hello(stage, name) for name in names)) == [200] * 1000
        assert len(stage.slurm.told) <= 20
