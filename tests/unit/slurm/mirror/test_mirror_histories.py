"""A mirror ends equal to Slurm whatever happens."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from tests.unit.slurm.scripted import Server, gone, job, node, told, view

from sunk.slurm.mirror.confidence import Known, Stale
from sunk.slurm.mirror.mirror import Mirror

pytestmark = pytest.mark.looptime

names = st.sampled_from("abc")
numbers = st.integers(1, 4)
pauses = st.sampled_from([0.0, 0.003, 0.03, 0.3, 0.999, 1.0, 3.0])
acts = st.one_of(
    st.tuples(st.just("node"), names),
    st.tuples(st.just("drop"), names | numbers),
    st.tuples(st.just("job"), numbers),
    st.tuples(st.just("away")),
    st.tuples(st.just("back")),
    # Also with a clock that is back by no more than has passed since the last read, which looks as if it were not.
    st.tuples(st.just("restart"), st.integers(0, 2000) | st.integers(995, 1002)),
    st.tuples(st.just("ask")),
)


class History:
    """A server to which things happen, and a mirror that has to follow."""

    def __init__(self) -> None:
        self.server = Server(node("a"), job(1))
        self.mirror = Mirror(self.server)
        self.told = told(self.mirror)
        self._turn = 0

    async def happen(self, act: tuple[Any, ...]) -> None:
        self._turn += 1
        match act:
            case ("node", name):
                self.server.put(node(name, reason=str(self._turn)))
            case ("job", number):
                self.server.put(job(number))
            case ("drop", key):
                self.server.drop(key)
            case ("away",):
                self.server.away = gone()
            case ("back",):
                self.server.away = None
            case ("restart", offset):
                self.server.restart(offset=offset)
            case ("ask",):
                await self.ask()

    async def ask(self) -> None:
        """Nothing happens while this is awaited, so what was so at the call must be shown after it."""
        try:
            await self.mirror.read_after()
        except Stale:
            assert self.server.away is not None
        else:
            assert view(self.mirror) == self.server.now


@given(steps=st.lists(st.tuples(pauses, acts), max_size=20))
@settings(max_examples=50, deadline=None)
async def test_whatever_happens_the_mirror_ends_equal_to_slurm_and_everybody_was_told(
    steps: list[tuple[float, tuple[Any, ...]]],
) -> None:
    history = History()
    async with history.mirror.running():
        for pause, act in steps:
            await asyncio.sleep(pause)
            await history.happen(act)
        history.server.away = None
        await asyncio.sleep(7)
        assert view(history.mirror) == history.server.now
        assert history.told == history.server.now["nodes"] | history.server.now["jobs"]
        assert isinstance(history.mirror.state, Known)
