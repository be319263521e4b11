"""What the mirror takes while nothing happens, and how long an order takes to be seen in it."""

import asyncio
import time
from collections.abc import Mapping
from statistics import median

from msgspec import Struct

from sunk.slurm.libslurm.library import Library
from sunk.slurm.mirror import reading
from sunk.slurm.mirror.confidence import State
from sunk.slurm.mirror.mirror import Mirror
from sunk.slurm.mirror.reading import MirrorPace
from sunk.slurm.orders.nodes import Orders
from sunk.slurm.records import Tables

DRAINS = 5
UPDATE_NODES = 3002
TABLES = ("nodes", "jobs", "partitions", "reservations")
PLENTY = 3600.0


class Quiet(Struct, frozen=True):
    """Medians of all reads and of those of all tables, in seconds; the share of a core; and how many there were."""

    read: float
    all_tables: float
    longest: float
    share: float
    reads: int
    changed: int


class Unchanged(Struct, frozen=True):
    """Medians, in seconds: a read of all tables; of the nodes alone; and of the nodes alone, with a pause before it."""

    everything: float
    nodes: float
    nodes_at_times: float


class Drain(Struct, frozen=True):
    """Medians, in seconds: the call; from its end until the mirror shows it; and requests that slurmctld counted."""

    call: float
    shown: float
    unasked: float
    requests: float


class Watched:
    """A library that notes how long each read takes; the loop's own clock is too coarse for that."""

    def __init__(self, library: Library) -> None:
        self.taken: list[tuple[float, bool]] = []
        """And whether it was one of all tables."""
        self.boot_time, self.configuration = library.boot_time, library.configuration
        self._library = library

    async def everything(self, since: Mapping[str, int]) -> Tables:
        began = time.perf_counter()
        found = await self._library.everything(since)
        self.taken.append((time.perf_counter() - began, since.get("reservations") != reading.NOT_NOW))
        return found


async def follow(library: Library, *, seconds: float, period: float, whole: float = PLENTY) -> Quiet:
    """Run a mirror at a steady period."""
    reader = Watched(library)
    mirror = Mirror(reader, pace=MirrorPace(quickest=period, slowest=period, whole=whole))
    async with mirror.running():
        await mirror.read_after()
        await asyncio.sleep(6)  # the first read was whole; soon after one more is asked for than when nothing happens
        reader.taken.clear()
        before, spent, began = mirror.statistics().counts, time.process_time(), time.monotonic()
        await asyncio.sleep(seconds)
        after, spent, took = mirror.statistics().counts, time.process_time() - spent, time.monotonic() - began
    if after.failures:
        raise SystemExit(f"of {after.reads} reads {after.failures} failed")
    reads = after.reads - before.reads
    changed = reads - (after.unchanged - before.unchanged)
    taken = [seconds for seconds, _ in reader.taken]
    return Quiet(
        read=median(taken),
        all_tables=median(seconds for seconds, every in reader.taken if every),
        longest=max(taken),
        share=spent / took,
        reads=reads,
        changed=changed,
    )


async def bare(library: Library, *, seconds: float, period: float) -> float:
    """The calls of a read at that pace, nothing of ours around them: nodes and jobs, and in one of four the others."""
    taken: list[float] = []
    wire, turn, end = library.wire, 0, time.monotonic() + seconds
    since = {name: wire.table(name, 0).updated for name in TABLES}
    time.sleep(1.1)  # noqa: ASYNC251 - the loop has nothing else to do
    while time.monotonic() < end:
        time.sleep(period)  # noqa: ASYNC251 - as above
        asked = TABLES if turn % 4 == 0 else TABLES[:2]
        began = time.perf_counter()
        changed = [name for name in asked if wire.table(name, since[name]) is not None]
        if not changed:
            taken.append(time.perf_counter() - began)
        since |= {name: wire.table(name, 0).updated for name in changed}
        turn += 1
    return median(taken)


async def one_after_another(library: Library, *, times: int, period: float) -> Unchanged:
    """Ask again and again, without a pause, for what did not change; and then for the nodes alone at a steady period."""
    everything: list[float] = []
    nodes: list[float] = []
    since: dict[str, int] = {}
    while len(everything) < times:
        whole = await reading.read(library, {}, whole=True)
        await asyncio.sleep(1.1)  # in the second of a change every read is whole
        since = {name: getattr(whole, name).updated for name in TABLES}
        for _ in range(times):
            began = time.perf_counter()
            found = await reading.read(library, since, whole=False)
            between = time.perf_counter()
            alone = await library.nodes(since["nodes"])
            if not found.nothing or alone is not None:
                break
            everything.append(between - began)
            nodes.append(time.perf_counter() - between)
    at_times = [await _paused(library, since["nodes"], period=period) for _ in range(times // 10)]
    return Unchanged(median(everything), nodes=median(nodes), nodes_at_times=median(at_times))


async def _paused(library: Library, since: int, *, period: float) -> float:
    await asyncio.sleep(period)
    began = time.perf_counter()
    await library.nodes(since)
    return time.perf_counter() - began


async def drain(library: Library, *, count: int) -> Drain:
    """Drain the next so many nodes, some times over; every other time nobody asks the mirror to read.

    It is never taken back: slurmctld would ask all of them for a sign of life, and one single slurmd would answer.
    """
    mirror, orders = Mirror(library), Orders(library)
    calls: list[float] = []
    shown: dict[bool, list[float]] = {True: [], False: []}
    async with mirror.running():
        await mirror.read_after()
        before = await _updates(library)
        for turn in range(DRAINS):
            await asyncio.sleep(2.3)  # the mirror has become slow by then
            names = [f"sim{turn * count + index:04}" for index in range(1, count + 1)]
            began = time.monotonic()
            outcome = await orders.drain(names, reason="bench")
            calls.append((done := time.monotonic()) - began)
            if len(outcome.done) != count:
                raise SystemExit(f"of {count} nodes {len(outcome.done)} were drained")
            asks = turn % 2 == 0
            await asyncio.gather(_shown(mirror, names), *((mirror.read_after(),) if asks else ()))
            shown[asks].append(time.monotonic() - done)
        requests = (await _updates(library) - before) / DRAINS
    return Drain(median(calls), shown=median(shown[True]), unasked=median(shown[False]), requests=requests)


async def _shown(mirror: Mirror, names: list[str]) -> None:
    """Wait until the mirror shows that they are drained."""
    seen = asyncio.Event()

    def look(_: State) -> None:
        found = (mirror.nodes.get(name) for name in names)
        if all(node is not None and node.state.draining for node in found):
            seen.set()

    end = mirror.subscribe(look)
    try:
        await asyncio.wait_for(seen.wait(), 10)
    except TimeoutError:
        raise SystemExit(f"the drain of {names[0]} and others is not seen: {mirror.statistics()}") from None
    finally:
        end()


async def _updates(library: Library) -> int:
    return next((each.count for each in (await library.statistics()).rpcs if each.key == UPDATE_NODES), 0)
