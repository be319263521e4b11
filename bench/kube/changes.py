"""Changes on the server and what became of them at the client: none lost, how dear, how late.

All readers run on what is shipped (`bench.kube.shipped`). What one change costs depends on what else the processor did
since the last one, and on a virtual machine on neighbours that nobody sees. So ours and a bare read take turns, each
alone on its core for a flood of its own; medians are told, and how the two stand to each other in each turn.
"""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import msgspec
from msgspec import Struct

from bench.kube import shipped
from bench.kube.follower import Followed
from bench.kube.server import OURS, Server, heard
from bench.kube.writer import Write, Written

FOLLOWER, BARE = "bench.kube.follower", "bench.kube.bare"
T = TypeVar("T")
SETTLE = 1.0
"""Seconds after the last write until the last reconcile is surely over."""


class Flood(Struct, frozen=True):
    """Changes as fast as the server takes them, `rate` of them a second; seconds of CPU for each, of ours and bare."""

    rate: float
    looks_each: float
    cpu_each: float
    bare_cpu_each: float
    lost: int


class Stalls(Struct, frozen=True):
    """The longest callback in such a flood, in seconds of CPU, and which one. Timing them costs too, hence apart."""

    longest: float
    where: str
    lost: int


class Bare(Struct, frozen=True):
    """What a reader that keeps nothing has to say."""

    cpu: float
    changes: int


class Quiet(Struct, frozen=True):
    """Seconds from each change to its reconcile, sorted."""

    from_sent: tuple[float, ...]
    from_acknowledged: tuple[float, ...]


def floods(server: Server, *, turns: int, seconds: float) -> list[Flood]:
    return [_turn(server, seconds=seconds, bare_first=bool(turn % 2)) for turn in range(turns)]


def _turn(server: Server, *, seconds: float, bare_first: bool) -> Flood:
    before = _bare(server, seconds=seconds) if bare_first else None
    written, found = _flood(server, seconds=seconds)
    return Flood(
        rate=sum(one.count for one in written) / seconds,
        looks_each=len(found.looks) / found.changes,
        cpu_each=found.cpu / found.changes,
        bare_cpu_each=before or _bare(server, seconds=seconds),
        lost=lost(written, found),
    )


def _flood(server: Server, *arguments: str, seconds: float) -> tuple[list[Written], Followed]:
    with following(server, FOLLOWER, *arguments, core=OURS) as child:
        written = server.writers("flood", count=server.pods, seconds=seconds)
        return written, ended(child, Followed)


def _bare(server: Server, *, seconds: float) -> float:
    with following(server, BARE, "on", core=OURS) as child:
        server.writers("flood", count=server.pods, seconds=seconds)
        found = ended(child, Bare)
    return found.cpu / found.changes


def stalls(server: Server, *, seconds: float) -> Stalls:
    written, found = _flood(server, "timed", seconds=seconds)
    return Stalls(longest=found.longest, where=found.longest_in, lost=lost(written, found))


def lost(written: list[Written], found: Followed) -> int:
    """Count the changes that never came through, and the Pods whose last version was not reconciled."""
    seen = {look.name: look.version for look in found.looks}
    missed = sum(seen.get(name) != version for one in written for name, version in one.versions.items())
    return missed + abs(sum(one.count for one in written) - found.changes)


def quiet(server: Server, *, count: int, pause: float) -> Quiet:
    with following(server, FOLLOWER, core=None) as child:
        written = server.writers("trickle", count=count, seconds=pause, processes=1)
        found = ended(child, Followed)
    pairs = [(write, called(write, found)) for one in written for write in one.singly]
    return Quiet(
        from_sent=tuple(sorted(at - write.sent for write, at in pairs)),
        from_acknowledged=tuple(sorted(at - write.acknowledged for write, at in pairs)),
    )


def called(write: Write, found: Followed) -> float:
    """When the first reconcile was called that saw the change."""
    times = (look.at for look in found.looks if look.name == write.name and look.version >= write.version)
    return next(times, float("inf"))


def percentile(sorted_values: tuple[float, ...], share: float) -> float:
    """Give the value that this share of all does not exceed."""
    return sorted_values[min(int(len(sorted_values) * share), len(sorted_values) - 1)]


@contextmanager
def following(server: Server, module: str, *arguments: str, core: int | None) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a reader of changes and its measurement; `ended` ends the latter."""
    child = shipped.program(server, module, *arguments, core=core)
    try:
        if not child.stdout or child.stdout.readline() != b"ready\n":
            raise SystemExit(f"{module} did not come to be ready; its words stand above")
        say(child, b"begin\n")
        yield child
    finally:
        child.kill()
        child.wait()


def ended(child: "subprocess.Popen[bytes]", answer: type[T]) -> T:
    time.sleep(SETTLE)
    say(child, b"end\n")
    return msgspec.json.decode(heard(child), type=answer)


def say(child: "subprocess.Popen[bytes]", word: bytes) -> None:
    if child.stdin:
        child.stdin.write(word)
        child.stdin.flush()
