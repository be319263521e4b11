"""Runs beside the syncer and looks at Slurm for the bench: takes requests by lines of JSON, answers each with a line.

What it times it times by the monotonic clock, which all processes of a machine share. It asks libslurm itself, without
our event loop and threads, so that it sees a change as soon as anybody can.
"""

import sys
import time
import urllib.request
from collections.abc import Callable, Collection
from typing import Any

import msgspec
from msgspec import Struct

from sunk.slurm.errors import Unreachable
from sunk.slurm.libslurm.wire import NodeChange, Wire
from sunk.slurm.records import Node
from sunk.slurm.states import NodeFlag

PATIENCE = 120.0
UPDATE_NODES = 3002
WRITES = ("create", "update", "patch", "delete")


class Request(Struct, frozen=True):
    """Something to do."""

    what: str
    options: dict[str, Any] = {}


class Seen(Struct, frozen=True):
    """When it was so, and with which reasons."""

    when: float
    reasons: tuple[str, ...]


class State(Struct, frozen=True):
    """What Slurm says of a node."""

    draining: bool
    reason: str


def until(wire: Wire, *, names: Collection[str], draining: bool, pause: float) -> Seen:
    """Look until all of these nodes are drained, or none of them is."""
    found = _look(wire, set(names), lambda row: _drains(row) is draining, pause=pause)
    return Seen(time.monotonic(), tuple(sorted({row.reason for row in found})))


def bare(wire: Wire, *, name: str, pause: float) -> float:
    """Write something that nobody minds, and look until it is there."""
    began = time.monotonic()
    wire.update_nodes(NodeChange(names=name, comment=f"at {began}"))
    _look(wire, {name}, lambda row: row.comment == f"at {began}", pause=pause)
    return time.monotonic() - began


def comment(wire: Wire, *, name: str, text: str) -> None:
    """Write something that nobody minds."""
    wire.update_nodes(NodeChange(names=name, comment=text))


def until_comment(wire: Wire, *, name: str, text: str, pause: float) -> float:
    """Look until it is there, and give the moment."""
    _look(wire, {name}, lambda row: row.comment == text, pause=pause)
    return time.monotonic()


def drain(wire: Wire, *, name: str, reason: str) -> float:
    """Do what `scontrol` does, and give the moment before it."""
    began = time.monotonic()
    wire.update_nodes(NodeChange(names=name, state=NodeFlag.DRAIN.value, reason=reason))
    return began


def drain_at(wire: Wire, *, name: str, reason: str, at: float) -> float:
    """Drain a node at that moment."""
    time.sleep(max(at - time.monotonic(), 0.0))
    return drain(wire, name=name, reason=reason)


def state(wire: Wire, *, name: str) -> State:
    row = next(row for row in wire.table("nodes", 0).rows if row.name == name)
    return State(_drains(row), row.reason)


def undrain(wire: Wire, *, names: str) -> None:
    wire.update_nodes(NodeChange(names=names, state=NodeFlag.UNDRAIN.value))


def requests(wire: Wire) -> dict[int, int]:
    """What slurmctld has counted since its start, by the number of the request."""
    return {each.key: each.count for each in wire.statistics().rpcs}


def boot(wire: Wire) -> int:
    """When slurmctld began; 0 while it does not answer."""
    try:
        return wire.boot_time()
    except Unreachable:
        return 0


def marked(wire: Wire) -> int:
    """How many nodes carry what the syncer writes on each."""
    return sum('"k8s"' in row.extra for row in wire.table("nodes", 0).rows)


def writes(_: Wire, *, host: str) -> float:
    """How often the syncer has written to Kubernetes, by its own count; renewals of its lease are none."""
    with urllib.request.urlopen(f"http://{host}:8080/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    told = [line for line in lines if line.startswith("sunk_kube_requests_total") and 'resource="leases"' not in line]
    changing = [line for line in told if any(f'verb="{verb}"' in line for verb in WRITES)]
    return sum(float(line.rpartition(" ")[2]) for line in changing)


def _look(wire: Wire, names: set[str], holds: Callable[[Node], bool], *, pause: float) -> list[Node]:
    """Read the nodes, as far as they have changed, until it holds of all of these."""
    since, deadline, left = 0, time.monotonic() + PATIENCE, names
    while time.monotonic() < deadline:
        table = wire.table("nodes", since)
        if table is not None:
            since = table.updated
            rows = [row for row in table.rows if row.name in names]
            left = {row.name for row in rows if not holds(row)}
            if not left and len(rows) == len(names):
                return rows
        time.sleep(pause)
    raise SystemExit(f"after {PATIENCE:g} s it is not so of {len(left)} nodes, {min(left, default='')} among them")


def _drains(row: Node) -> bool:
    return bool(row.state_bits & NodeFlag.DRAIN.value)


WHAT: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        until,
        bare,
        comment,
        until_comment,
        drain,
        drain_at,
        state,
        undrain,
        requests,
        boot,
        marked,
        writes,
    )
}


def main() -> None:
    wire = Wire()
    for line in sys.stdin:
        request = msgspec.json.decode(line, type=Request)
        print(msgspec.json.encode(WHAT[request.what](wire, **request.options)).decode(), flush=True)


if __name__ == "__main__":
    main()
