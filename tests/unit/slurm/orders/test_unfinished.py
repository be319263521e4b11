"""What orders have taken from others is not lost with the answer to them."""

import threading
from collections.abc import Callable
from typing import TypeVar, cast

import pytest
from tests.unit.slurm.scripted import gone
from tests.unit.syncer.builders import drained, row
from tests.unit.syncer.scripted import Slurm

from sunk.slurm.errors import Denied, InvalidState, SlurmError, Unreachable, refusal
from sunk.slurm.libslurm.library import Library
from sunk.slurm.libslurm.wire import Expected, NodeChange, Watched
from sunk.slurm.orders.guarded import FEW, Covered
from sunk.slurm.orders.nodes import Orders
from sunk.slurm.records import Node, Table

pytestmark = pytest.mark.looptime

T = TypeVar("T")
OURS, BOBS, IDLE = drained(reason="k8s: cordon"), drained(reason="bob: fan", reason_time=5), row()
MANY = [f"n{number}" for number in range(FEW + 1)]
NO_ANSWERS = [refusal(number, asked="update node n1") for number in (-1, 104, 1000, 1007, 1800, 5003, 5005)]


class Scripted(Slurm):
    """A slurmctld of which some reads of the table are known beforehand; after these it is read as it is."""

    def __init__(self, *rows: Node) -> None:
        super().__init__(*rows)
        self.script: list[tuple[Node, ...] | SlurmError] = []

    async def all_nodes(self) -> Table[Node]:
        found = await super().all_nodes()
        if not self.script:
            return found
        read = self.script.pop(0)
        if isinstance(read, SlurmError):
            raise read
        return Table(rows=read, updated=self.clock)


def orders(slurm: Slurm) -> Orders:
    return Orders(cast("Library", slurm))


@pytest.mark.parametrize("broken", NO_ANSWERS)
async def test_what_was_seen_before_the_connection_broke_is_put_back(broken: SlurmError) -> None:
    slurm = Slurm(OURS)
    slurm.in_between, slurm.breaks = lambda _: (BOBS,), lambda _: broken
    ordering = orders(slurm)
    outcome = await ordering.undrain(["n1"], seen={"n1": OURS})
    assert outcome.trouble is broken
    assert ordering.unfinished == {"n1"}
    assert (await ordering.judge_unfinished())["n1"].row == BOBS
    assert not ordering.unfinished


async def test_a_text_that_a_refused_order_has_overwritten_is_put_back() -> None:
    """Slurm writes the reason before it looks whether there is a way to the state."""
    slurm = Slurm(IDLE)
    slurm.in_between = lambda _: (BOBS,)
    slurm.breaks = lambda _: InvalidState(2028, asked="update node n1")
    ordering = orders(slurm)
    await ordering.drain(["n1"], reason="k8s: cordon", seen={"n1": IDLE})
    assert (await ordering.judge_unfinished())["n1"].row == BOBS


async def test_an_order_that_we_may_not_give_has_taken_nothing() -> None:
    slurm = Slurm(OURS)
    slurm.in_between, slurm.refuses = lambda _: (BOBS,), lambda _: Denied(2010, asked="update node n1")
    ordering = orders(slurm)
    await ordering.undrain(["n1"], seen={"n1": OURS})
    assert not ordering.unfinished


class Late(Slurm):
    """An order is given up while its thread waits, and comes about in the middle of the next read."""

    def __init__(self, *rows: Node) -> None:
        super().__init__(*rows)
        self._go, self._began = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    async def call(self, blocking: Callable[[], T], *, asked: str) -> T:
        self._thread = threading.Thread(target=blocking)
        self._thread.start()
        self._began.wait(60)
        raise Unreachable(1800, asked=asked)

    def update_if(self, _change: NodeChange, _expected: Expected) -> Watched:
        self._began.set()
        self._go.wait(60)
        return Watched((OURS, BOBS, IDLE))

    async def all_nodes(self) -> Table[Node]:
        found = await super().all_nodes()
        if self._thread is not None:
            self._go.set()
            self._thread.join()
            self._thread = None
            self.put(IDLE)
        return found


async def test_an_order_that_comes_about_during_a_read_is_not_judged_by_it() -> None:
    ordering = orders(Late(BOBS))
    await ordering.undrain(["n1"], seen={"n1": OURS})
    assert await ordering.judge_unfinished() == {}
    assert ordering.unfinished == {"n1"}
    assert (await ordering.judge_unfinished())["n1"].row == BOBS


async def test_troubles_of_putting_back_are_told_by_node() -> None:
    slurm = Slurm(*(row(name) for name in ("n1", "n2", "n3")))
    wrong = {"n1": Denied(2002, asked="update node n1"), "n2": gone()}
    slurm.refuses = lambda change: wrong.get(change.names)
    lost = {name: Covered(row=drained(name, reason="bob: fan"), now=row(name)) for name in ("n1", "n2", "n3")}
    outcome = await orders(slurm).put_back(lost)
    assert outcome.done == ("n3",)
    assert outcome.troubles == wrong
    assert outcome.trouble is wrong["n2"], "whoever hears of one only has to hear that nobody answers"


def many(reason: str, *, at: int = 0) -> tuple[Node, ...]:
    return tuple(drained(name, reason=reason, reason_time=at) for name in MANY)


BEFORE = many("k8s: cordon")
BETWEEN = (drained("n0", reason="bob: fan", reason_time=5), *BEFORE[1:])


@pytest.mark.parametrize("fails", ["order", "last read"])
async def test_what_was_seen_of_many_is_kept_if_the_call_fails(fails: str) -> None:
    slurm = Scripted(*BEFORE)
    slurm.breaks = lambda _: gone() if fails == "order" else None
    slurm.script = [BEFORE, BETWEEN, gone()]
    ordering = orders(slurm)
    with pytest.raises(Unreachable):
        await ordering.undrain(MANY, seen={one.name: one for one in BEFORE})
    slurm.script.clear()
    assert ordering.unfinished == {*MANY}
    lost = await ordering.judge_unfinished()
    assert {name: one.row for name, one in lost.items()} == {"n0": BETWEEN[0]}


async def test_a_text_left_on_one_of_many_is_known_though_the_read_during_the_order_failed() -> None:
    slurm = Scripted(*BEFORE)
    slurm.script = [BEFORE, gone()]
    ordering = orders(slurm)
    with pytest.raises(Unreachable):
        await ordering.undrain(MANY, seen={one.name: one for one in BEFORE})
    slurm.put(row("n0", reason="bob: fan", reason_time=5))
    assert [*await ordering.judge_unfinished()] == ["n0"]


async def test_of_many_to_whom_nothing_was_sent_nothing_is_kept() -> None:
    slurm = Scripted(*BEFORE)
    slurm.script = [gone()]
    ordering = orders(slurm)
    with pytest.raises(Unreachable):
        await ordering.undrain(MANY, seen={one.name: one for one in BEFORE})
    assert not ordering.unfinished
