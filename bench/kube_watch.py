"""What it costs to follow Kubernetes: 5,000 Pods read, changed and reconciled on a real API server, 50,000 held.

Clients run in processes of their own, on one core; the server has the other. Where a figure depends on the server, it
is given as a ratio to a bare read of the same stream: the two take turns, and the median of the turns is told. Changes
are followed on the interpreter and the libraries that are shipped; while they come as fast as may be, server and writers
need both cores. `--peers` measures other Python packages as well and writes them down; without it, the record is
compared with, in units of the bare read.
"""

import argparse
from collections import defaultdict
from statistics import median

from bench.kube import changes, peers, weight
from bench.kube.changes import Flood, Quiet, Stalls, percentile
from bench.kube.peers import Record, Spent, spent, typical
from bench.kube.server import OURS, THEIRS, Server, filled
from bench.kube.weight import Weight
from bench.report import Figure, report
from sunk.local.progress import step

PODS = 5000
HELD = 50_000
ROUNDS = 10
FLOODS = 5


def reads(server: Server, *, with_peers: bool) -> dict[str, list[Spent]]:
    """Read everything in turns: bare, into our store, and by the peers if asked."""
    programs = {"bare": "bench.kube.bare", "ours": "bench.kube.sync"}
    runs: dict[str, list[Spent]] = defaultdict(list)
    for turn in range(ROUNDS):
        # Whoever comes after a long list pays for the server's garbage: one read is thrown away, then both take turns.
        spent(programs["bare"], *server.where)
        for name in sorted(programs, reverse=bool(turn % 2)):
            runs[name].append(spent(programs[name], *server.where))
        for peer in peers.PROGRAMS if with_peers else ():
            if peer != peers.SLOW or turn == ROUNDS - 1:
                runs[peer].append(peers.read(server, peer))
    return runs


def written_down(found: dict[str, Spent], *, pods: int) -> None:
    """Keep what the peers took, beside ourselves in the same run."""
    bare, ours = found["bare"], found["ours"]
    others = {peer: found[peer] for peer in peers.PROGRAMS}
    peers.write(Record(peers.machine(), peers.versions(), pods, bare.objects, bare=bare, ours=ours, peers=others))


def of_reads(bare: list[Spent], ours: list[Spent], record: Record | None) -> list[Figure]:
    turns = list(zip(ours, bare, strict=True))
    time = median(one.seconds / other.seconds for one, other in turns)
    cpu = median(one.cpu / other.cpu for one, other in turns)
    figures = [Figure(f"{PODS} Pods to a synced store, time, to a bare read", time, "×", goal=1.3)]
    figures.append(Figure("CPU, to a bare read", cpu, "×"))
    if record is None:
        print("No peers are on record: `python -m bench.kube_watch --peers` measures them.")
        return figures
    return [*figures, *of_peers(typical(ours), record, cpu=cpu)]


def of_peers(ours: Spent, record: Record, *, cpu: float) -> list[Figure]:
    """Compare with the best that keeps a store; and, for the record, with lightkube, which was given a dict for one."""
    best, storing = record.best(), record.best("kubernetes", "kopf")
    return [
        Figure("CPU, to the best peer that keeps a store", cpu / storing.cpu, "×", goal=1 / 5),
        Figure("memory added, to the best peer that keeps a store", ours.grown / storing.grown, "×", goal=1 / 3),
        Figure("CPU, to lightkube with a dict", cpu / best.cpu, "×"),
        Figure("CPU of a bare read, to lightkube with a dict", 1 / best.cpu, "×"),
        Figure("memory added, to lightkube with a dict", ours.grown / best.grown, "×"),
    ]


def of_floods(found: list[Flood], stalls: Stalls) -> list[Figure]:
    print(f"longest callback: {stalls.where}")
    each = [one.cpu_each * 1e6 for one in found]
    return [
        Figure("changes as fast as the server writes", median(one.rate for one in found), "a second"),
        Figure("CPU of one change, watch to reconcile", median(each), "µs", goal=120),
        Figure(f"the same, least of {len(each)} floods", min(each), "µs"),
        Figure(f"the same, most of {len(each)} floods", max(each), "µs"),
        Figure("CPU of one change, bare read", median(one.bare_cpu_each for one in found) * 1e6, "µs"),
        Figure("CPU of one change, to a bare read", median(one.cpu_each / one.bare_cpu_each for one in found), "×"),
        Figure("longest callback, CPU", stalls.longest * 1e3, "ms", goal=25),
        Figure("changes lost", sum(one.lost for one in found) + stalls.lost, "changes", goal=0),
        Figure("reconciles per change", median(one.looks_each for one in found), "×"),
    ]


def of_quiet(found: Quiet) -> list[Figure]:
    sent, acknowledged = found.from_sent, found.from_acknowledged
    return [
        Figure("change acknowledged to reconcile called, p50", percentile(acknowledged, 0.5) * 1e3, "ms", goal=5),
        Figure("the same, p99", percentile(acknowledged, 0.99) * 1e3, "ms", goal=30),
        Figure("change sent to reconcile called, p50", percentile(sent, 0.5) * 1e3, "ms"),
        Figure("the same, p99", percentile(sent, 0.99) * 1e3, "ms"),
    ]


def of_weight(found: Weight) -> list[Figure]:
    return [
        Figure(f"{HELD} Pods held, memory added, Python {found.python}", found.grown, "MB", goal=300),
        Figure("the same, whole process", found.whole, "MB"),
        Figure("full collection with them, the longest", found.pause * 1e3, "ms", goal=10),
        Figure("full collection without them", found.pause_without * 1e3, "ms"),
    ]


def main(*, with_peers: bool) -> list[Figure]:
    with filled(PODS) as server:
        with step(f"Hold {HELD} Pods"):
            held = weight.weigh(server, count=HELD)
        # Who reads all at once races with the server for every core: each gets one, and the figures are steadier.
        server.pin(THEIRS)
        with step(f"Read {PODS} Pods, {ROUNDS} times"):
            found = reads(server, with_peers=with_peers)
        if with_peers:
            written_down({name: typical(some) for name, some in found.items()}, pods=server.pods)
        server.pin(OURS, THEIRS)
        with step("Change them as fast as may be"):
            floods = changes.floods(server, turns=FLOODS, seconds=5.0)
            stalls = changes.stalls(server, seconds=5.0)
        with step("Change them one at a time"):
            quiet = changes.quiet(server, count=400, pause=0.025)
    figures = of_reads(found["bare"], found["ours"], peers.recorded())
    return [*figures, *of_floods(floods, stalls), *of_quiet(quiet), *of_weight(held)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--peers", action="store_true", dest="with_peers", help="measure the other packages too; minutes"
    )
    report("kube_watch", main(**vars(parser.parse_args())))
