"""How long a call may take, with a wire that does what it is told. Real threads, so real but short times."""

import threading
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest

from sunk.model.refusal import Refusal
from sunk.slurm import loading
from sunk.slurm.errors import Unreachable
from sunk.slurm.library import Library
from sunk.slurm.wire import Wire


class Stuck:
    """A wire whose calls wait until they are let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.answers = False

    def ping(self) -> bool:
        return self.answers

    def boot_time(self) -> int:
        self.go.wait(10)
        return 7


@pytest.fixture
def wire() -> Iterator[Stuck]:
    made = Stuck()
    yield made
    made.go.set()


def library(wire: Any) -> Library:
    return Library(cast("Wire", wire), threads=2, doubt=0.05, patience=0.1)


async def test_a_call_is_given_up_when_nobody_answers_a_ping(wire: Stuck) -> None:
    asked = library(wire)
    for _ in range(4):  # more than there are threads
        began = time.monotonic()
        with pytest.raises(Unreachable, match="read the configuration: slurmctld does not answer a ping"):
            await asked.boot_time()
        assert time.monotonic() - began < 2
    wire.go.set()
    assert await asked.boot_time() == 7


async def test_a_call_is_given_up_for_good_after_a_while(wire: Stuck) -> None:
    wire.answers = True
    with pytest.raises(Unreachable, match="answers a ping, but not this"):
        await library(wire).boot_time()


def test_without_the_image_the_way_to_libslurm_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    with pytest.raises(Refusal, match=r"no Slurm configuration at .*slurm.conf\. Mount it"):
        loading.load()
    (tmp_path / "slurm.conf").touch()
    with pytest.raises(Refusal, match="runs in the image sunk"):
        loading.load()
