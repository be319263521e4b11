"""How long a call may take, with a wire that does what it is told. Real threads, so real but short times."""

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest

from sunk.model.refusal import Refusal
from sunk.slurm.errors import Unreachable
from sunk.slurm.libslurm import loading
from sunk.slurm.libslurm.library import Library
from sunk.slurm.libslurm.wire import Wire
from sunk.slurm.records import Accounted, Table


class Stuck:
    """A wire whose calls wait until they are let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.answers = False
        self.pings = 0

    def ping(self) -> bool:
        self.pings += 1
        return self.answers

    def boot_time(self) -> int:
        self.go.wait(120)
        return 7


@pytest.fixture
def wire() -> Iterator[Stuck]:
    made = Stuck()
    yield made
    made.go.set()


def library(wire: Any, *, patience: float = 0.1) -> Library:
    return Library(cast("Wire", wire), threads=2, doubt=0.05, patience=patience)


async def test_a_call_is_given_up_when_nobody_answers_a_ping(wire: Stuck) -> None:
    asked = library(wire)
    for _ in range(4):  # more than there are threads
        with pytest.raises(Unreachable, match="read the configuration: slurmctld does not answer a ping"):
            await asked.boot_time()
    wire.go.set()
    assert await asked.boot_time() == 7


async def test_a_call_is_given_up_for_good_after_a_while(wire: Stuck) -> None:
    wire.answers = True
    with pytest.raises(Unreachable, match="answers a ping, but not this"):
        await library(wire).boot_time()


async def test_waiting_for_a_thread_is_no_fault_while_others_are_answered(wire: Stuck) -> None:
    wire.answers = True
    asked = library(wire, patience=3)
    began = time.monotonic()
    slow = (asked.call(lambda: time.sleep(0.02), asked="cancel a job") for _ in range(400))
    assert len(await asyncio.gather(*slow)) == 400
    assert time.monotonic() - began > 3  # longer than one call may take


async def test_a_thousand_who_wait_for_a_thread_learn_soon_that_nobody_is_there(wire: Stuck) -> None:
    asked = library(wire)
    ended = await asyncio.gather(*(asked.boot_time() for _ in range(1000)), return_exceptions=True)
    assert {type(each) for each in ended} == {Unreachable}
    assert wire.pings < 20  # they share them


async def test_who_waits_for_a_thread_gives_up_when_none_is_answered_for_long(wire: Stuck) -> None:
    wire.answers = True
    asked = library(wire)
    ended = await asyncio.gather(*(asked.boot_time() for _ in range(5)), return_exceptions=True)
    assert all("answers a ping, but not this" in str(each) for each in ended)


async def test_a_call_that_was_given_up_holds_its_thread_until_it_ends(wire: Stuck) -> None:
    asked = library(wire, patience=5)
    await asyncio.gather(asked.boot_time(), asked.boot_time(), return_exceptions=True)
    wire.answers = True
    began: list[int] = []
    third = asyncio.ensure_future(asked.call(lambda: began.append(3), asked="cancel a job"))
    await asyncio.sleep(0.06)
    assert not began
    assert not third.done()
    wire.go.set()
    await third
    assert began == [3]


async def test_who_stops_waiting_for_a_thread_leaves_it_to_the_next(wire: Stuck) -> None:
    wire.answers = True
    asked = library(wire, patience=5)
    held = [asyncio.ensure_future(asked.boot_time()) for _ in range(2)]
    waiting = [asyncio.ensure_future(asked.boot_time()) for _ in range(3)]
    await asyncio.sleep(0.01)
    waiting[0].cancel()
    wire.go.set()
    assert await asyncio.gather(*held, *waiting[1:]) == [7] * 4
    assert await asyncio.gather(*(asked.boot_time() for _ in range(4))) == [7] * 4


def test_without_the_image_the_way_to_libslurm_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    with pytest.raises(Refusal, match=r"no Slurm configuration at .*slurm.conf\. Mount it"):
        loading.load()
    (tmp_path / "slurm.conf").touch()
    with pytest.raises(Refusal, match="Run this in the image sunk"):
        loading.load()


async def test_what_a_call_raises_is_raised_where_it_is_awaited(wire: Stuck) -> None:
    def broken() -> int:
        raise ZeroDivisionError("on a thread")

    with pytest.raises(ZeroDivisionError, match="on a thread"):
        await library(wire).call(broken, asked="divide")


def test_an_answer_that_comes_when_the_loop_is_gone_is_nobodys_and_the_thread_goes_on(wire: Stuck) -> None:
    asked = library(wire)

    async def leave() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asked.boot_time(), 0.02)

    for _ in range(2):  # as many as there are threads
        asyncio.run(leave())
    wire.go.set()
    assert asyncio.run(asked.boot_time()) == 7


async def test_a_thread_that_cannot_be_started_does_not_keep_accounting_from_being_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Answers:
        def accounted(self, _cluster: str, _jobs: tuple[int, ...], _since: int) -> Table[Accounted]:
            return Table(rows=(), updated=7)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    asked = library(Answers())
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            await asked.accounted("c1", [7])
    assert (await asked.accounted("c1", [7])).updated == 7
