"""What it costs to read and order Slurm: 5,000 nodes and 10,000 jobs on a real slurmctld, beside slurmrestd and C.

All that is compared takes turns within one run, on one slurmctld; ratios are medians of the ratios of those turns.
"""

import argparse
import time
from statistics import median

from bench.report import Figure, report
from bench.slurm.memory import WHOLE
from bench.slurm.quiet import Drain, Quiet, Unchanged
from bench.slurm.rest import Read
from bench.slurm.testbed import Testbed, running_testbed
from sunk.local.artifacts import images
from sunk.local.progress import step
from sunk.slurm.libslurm.library import THREADS

NODES = 5000
JOBS = 10_000
ROUNDS = {"nodes": 5, "jobs": 2}
SUBMIT_ROUNDS = 50
DRAINED = 1000
READS = 100_000
SUBMITS = 10_000
MEMORY_ROUNDS = 10
QUIET = 20.0
PERIOD = 0.25
OURS, REST, COMMAND = "ours", "slurmrestd", "command"


def reads(on: Testbed, table: str, *, rows: int) -> dict[str, list[Read]]:
    """Read a table in turns: ours, slurmrestd, and Slurm's own command."""
    found: dict[str, list[Read]] = {OURS: [], REST: [], COMMAND: []}
    on.ask(table, Read)  # whoever comes first finds everything cold
    for _ in range(ROUNDS[table]):
        found[OURS].append(on.ask(table, Read))
        found[REST].append(on.by_rest(table))
        found[COMMAND].append(on.command(table))
    for name, some in found.items():
        if any(one.rows < rows for one in some):
            raise SystemExit(f"{name} read {[one.rows for one in some]} {table}, and there are {rows}")
    return found


def of_reads(found: dict[str, list[Read]], what: str, command: str) -> list[Figure]:
    figures = [Figure(f"{what} into records, time, to slurmrestd", ratio(found, REST), "×", goal=1 / 15)]
    figures.append(Figure(f"{what} into records, time, to {command}", ratio(found, COMMAND), "×"))
    for name, label in ((OURS, "ours"), (REST, "slurmrestd"), (COMMAND, command)):
        figures.append(Figure(f"{what}, {label}", 1e3 * median(one.seconds for one in found[name]), "ms"))
    return [*figures, Figure(f"{what}, JSON of slurmrestd", found[REST][0].bytes / 1e6, "MB")]


def ratio(found: dict[str, list[Read]], other: str) -> float:
    return median(one.seconds / two.seconds for one, two in zip(found[OURS], found[other], strict=True))


def submits(on: Testbed) -> list[Figure]:
    """Submit in turns, in C and by ourselves, until there are enough jobs."""
    count = JOBS // SUBMIT_ROUNDS // 2
    pairs = []
    for turn in range(SUBMIT_ROUNDS):
        ours = on.ask("submit", float, count=count) if turn % 2 else 0.0
        in_c = on.submit_in_c(threads=THREADS, count=count)
        pairs.append((in_c, ours or on.ask("submit", float, count=count)))
    return [
        Figure("submits, rate in C to ours", median(ours / in_c for in_c, ours in pairs), "×", goal=1 / 0.8),
        Figure("submits, ours", median(count / ours for _, ours in pairs), "a second"),
        Figure("submits, in C", median(count / in_c for in_c, _ in pairs), "a second"),
    ]


def shares(on: Testbed, seconds: float) -> dict[str, float]:
    """What Slurm's daemons take of a core while nobody asks them anything."""
    before = on.cpu()
    time.sleep(seconds)
    return {name: (spent - before[name]) / seconds for name, spent in on.cpu().items()}


def quiet(on: Testbed) -> list[Figure]:
    """Read a Slurm in which nothing happens: without a pause, and four times a second."""
    time.sleep(5)
    unchanged = on.ask("unchanged", Unchanged, times=400, period=PERIOD)
    idle = shares(on, 10.0)
    bare = [on.ask("bare", float, seconds=QUIET / 2, period=PERIOD)]
    before, began = on.cpu(), time.monotonic()
    found = on.ask("quiet", Quiet, seconds=QUIET, period=PERIOD)
    took = time.monotonic() - began
    bare.append(on.ask("bare", float, seconds=QUIET / 2, period=PERIOD))
    asked = {name: (spent - before[name]) / took - idle[name] for name, spent in on.cpu().items()}
    whole = on.ask("quiet", Quiet, seconds=60.0, period=PERIOD, whole=30.0)
    print(f"quiet: {found}; with whole reads: {whole}")
    return [
        Figure(f"nothing changed among {NODES} nodes, a read", unchanged.nodes * 1e3, "ms", goal=5),
        Figure("the same, four a second", unchanged.nodes_at_times * 1e3, "ms"),
        Figure("nothing changed in any table, a read of all four", unchanged.everything * 1e3, "ms"),
        Figure("four reads a second, to the same calls in C at that pace", found.read / median(bare), "×", goal=1.3),
        Figure("four reads a second, the seldom tables in one of them", found.read * 1e3, "ms"),
        Figure("the same calls in C at that pace", median(bare) * 1e3, "ms"),
        Figure("those with all tables", found.all_tables * 1e3, "ms"),
        Figure("four reads a second, ours", found.share * 100, "% of a core", goal=1),
        Figure("the same, with a whole read every 30 s", whole.share * 100, "% of a core"),
        Figure("the same, slurmctld beyond its idling", asked["slurmctld"] * 100, "% of a core"),
        Figure("the same, sackd beyond its idling", asked["sackd"] * 100, "% of a core"),
        Figure("slurmctld idling", idle["slurmctld"] * 100, "% of a core"),
    ]


def drains(on: Testbed) -> list[Figure]:
    found = on.ask("drain", Drain, count=DRAINED)
    return [
        Figure(f"drain of {DRAINED} nodes, requests", found.requests, "requests", goal=1),
        Figure("the same, time", found.call, "s", goal=1),
        Figure("the same, seen in the mirror after the call", found.shown * 1e3, "ms", goal=300),
        Figure("the same, if nobody asks the mirror to read", found.unasked * 1e3, "ms"),
    ]


def memory(on: Testbed) -> list[Figure]:
    """Read and submit in rounds, the first to get warm, in a process that holds nothing of the parts before."""
    on = on.with_new_worker()
    each = {"reads": READS // MEMORY_ROUNDS, "submits": SUBMITS // MEMORY_ROUNDS}
    first, *later = (on.ask("memory", float, **each) for _ in range(MEMORY_ROUNDS + 1))
    print(
        f"resident after each round, the first to get warm: {first:.1f}; {', '.join(f'{each:.1f}' for each in later)}"
    )
    off = max(abs(megabytes - first) for megabytes in later)
    return [
        Figure(f"{READS} reads and {SUBMITS} submits, resident memory off by", off, "MB", goal=5),
        Figure("the same, resident", later[-1], "MB"),
        Figure("the same, whole reads of a thousand", sum(WHOLE), "reads"),
    ]


def main(*, version: str) -> None:
    found: list[Figure] = []
    with running_testbed(NODES, version=version) as on:
        for words, part in PARTS.items():
            with step(words):
                found += part(on)
            report("slurm_read", found)  # what is known by now, for whoever cannot wait or will not see the end


def nodes(on: Testbed) -> list[Figure]:
    return of_reads(reads(on, "nodes", rows=NODES), f"{NODES} nodes", "scontrol --json")


def jobs(on: Testbed) -> list[Figure]:
    figures = of_reads(reads(on, "jobs", rows=JOBS), f"{JOBS} jobs", "squeue --json")
    return [*figures, Figure("slurmrestd after all these reads, resident", on.end_rest(), "MB")]


PARTS = {
    f"Read {NODES} nodes": nodes,
    f"Submit {JOBS} jobs": submits,
    f"Read {JOBS} jobs": jobs,
    "Read what did not change": quiet,
    f"Drain {DRAINED} nodes": drains,
    "Read and submit for some minutes": memory,
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default=images.DEFAULT, choices=images.SUITES, help="of Slurm")
    main(**vars(parser.parse_args()))
