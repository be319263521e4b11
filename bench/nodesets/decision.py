"""What one Pod event costs the NodeSet controller: snapshot, plan and status at many members, without any request."""

import argparse
import asyncio
import time
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any, Final

from tests.unit.operator.nodeset import factories
from tests.unit.operator.nodeset.stores import Stores

from bench.report import Figure, report
from sunk.model import names
from sunk.model.nodeslice import MOST_ENTRIES
from sunk.operator.nodeset.act.executor import writes
from sunk.operator.nodeset.decide.plan import plan
from sunk.operator.nodeset.decide.status import Findings, status

MEMBERS: Final = 5000
EVENTS: Final = 200


def _later() -> dict[str, Any]:
    """What plans depend on since clearances are dated; older ones take no such thing."""
    try:
        from sunk.operator.nodeset.decide.podactions import Moment
    except ImportError:
        return {}
    now = datetime.now(UTC)
    return {"moment": Moment(now, since=now - timedelta(hours=1))}


def filled(count: int) -> tuple[Stores, Any]:
    owner, stores = factories.nodeset(cluster="research"), Stores()
    stores.put(owner)
    entries = [factories.entry(f"gpu-{number}", at=f"n{number}") for number in range(count)]
    for number, entry in enumerate(entries):
        labels = {names.POD: entry.name, names.NODESET: "gpu", names.NAMESPACE: "slurm", names.CLUSTER: "research"}
        address = f"10.0.{number // 250}.{number % 250 + 1}"
        stores.put(factories.node(entry.node, address=address, labels=labels, claim=owner.metadata.uid))
        stores.put(factories.pod(entry.name, at=entry.node, owner=owner))
    for start in range(0, count, MOST_ENTRIES):
        stores.put(factories.node_slice(owner, start // MOST_ENTRIES, *entries[start : start + MOST_ENTRIES]))
    return stores, owner


def decided(stores: Stores, owner: Any) -> None:
    """All that is worked out for one event, up to what would be written."""
    snapshot = stores.take(owner)
    todo = plan(owner, snapshot, revision="new", usable=True, batch=500, **_later())
    writes(snapshot, todo.membership, ())
    status(owner.metadata, before=owner.status, membership=todo.membership, findings=Findings(revision="new"))


async def measure(count: int) -> list[Figure]:
    stores, owner = filled(count)
    decided(stores, owner)
    times = []
    for number in range(EVENTS):
        name = number * 37 % count
        stores.put(factories.pod(f"gpu-{name}", at=f"n{name}", owner=owner, ready=bool(number % 2)))
        began = time.perf_counter()
        decided(stores, owner)
        times.append(time.perf_counter() - began)
    await stores.close()
    return [Figure(f"one Pod event at {count} members", median(times) * 1e3, "ms")]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=MEMBERS)
    report("nodeset_decision", asyncio.run(measure(parser.parse_args().members)))
