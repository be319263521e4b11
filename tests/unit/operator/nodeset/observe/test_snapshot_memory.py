"""What is remembered from one snapshot to the next never shows: whatever happens, a fresh look sees the same."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from msgspec import Struct
from msgspec.structs import replace
from tests.unit.operator.nodeset.factories import NOW, UID, entry, node, node_slice, nodeset, pod
from tests.unit.operator.nodeset.stores import ANY_NODE, Stores

from sunk.kube.core import Node
from sunk.kube.resource import Record
from sunk.model import names
from sunk.model.nodeslice import Entry
from sunk.objects.nodesets import NodeSet
from sunk.operator.nodeset.act.executor import writes
from sunk.operator.nodeset.decide.plan import plan
from sunk.operator.nodeset.decide.slices import shards, spread
from sunk.operator.nodeset.observe.fit import Demand
from sunk.operator.nodeset.observe.members import member_list
from sunk.operator.nodeset.observe.snapshot import Observer, Snapshot

pytestmark = pytest.mark.looptime

MANY = 5
OURS = nodeset(cluster="research")
THEIRS = nodeset("other", uid="another uid", cluster="research", podNamePrefix="gpu")
CLAIMS = ("", UID, THEIRS.metadata.uid, "of nobody")
SPECS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"taints": [{"key": "fan", "effect": "NoSchedule"}]},
    {"unschedulable": True},
)
VIEWS: tuple[Callable[[Snapshot], object], ...] = (
    lambda snapshot: snapshot.members.nodes,
    lambda snapshot: snapshot.members.leaving,
    lambda snapshot: snapshot.members.unfit,
    lambda snapshot: snapshot.members.unclaimed,
    lambda snapshot: snapshot.members.unsettled,
    lambda snapshot: snapshot.members.unavailable,
    lambda snapshot: snapshot.members.not_of("new"),
    lambda snapshot: snapshot.members.without_place(snapshot.claimed),
)


class Change(Struct, frozen=True):
    """Something happens to a Node, a Pod, a slice or a set; `how` picks one of its shapes, and 0 takes it away."""

    what: str
    which: int
    how: int
    of: int


CHANGES = st.builds(
    Change,
    st.sampled_from(("node", "node", "pod", "pod", "slice", "slice", "set")),
    st.integers(0, MANY - 1),
    st.integers(0, 5),
    st.integers(0, 3),
)


def record(change: Change) -> Record:
    owner = (OURS, THEIRS)[change.of % 2]
    match change.what:
        case "node":
            return _node(change)
        case "pod":
            return _pod(change, owner)
        case "slice":
            return _slice(change, owner)
    return owner


def _node(change: Change) -> Node:
    claim, spec = CLAIMS[change.of], SPECS[change.how % len(SPECS)]
    labels = (
        {names.NODESET: "gpu", names.NAMESPACE: "slurm", names.POD: f"gpu-{change.which}"} if change.how > 2 else {}
    )
    return node(f"n{change.which}", address=f"10.0.0.{change.which + 1}", claim=claim, labels=labels, **spec)


def _pod(change: Change, owner: NodeSet) -> Record:
    return pod(
        f"gpu-{change.which}",
        at=f"n{(change.which + (change.of > 1)) % MANY}",
        owner=owner,
        ready=change.how != 2,
        terminating=change.how == 3,
        revision="old" if change.how == 4 else "new",
        mark="scaled in" if change.how == 5 else None,
    )


def _slice(change: Change, owner: NodeSet) -> Record:
    """Up to three entries, which may stand in another slice too."""
    some = [_entry((change.which + step) % MANY, leaving=change.how == 4) for step in range(change.how % 4)]
    return node_slice(owner, change.of // 2, *some, released=("gpu-0", "gpu-1") if change.how == 5 else ())


def _entry(number: int, *, leaving: bool) -> Entry:
    return entry(f"gpu-{number}", at=f"n{number}", state="leaving" if leaving else "joined")


def settled() -> Stores:
    """Three members of one set, spread over two slices, and two Nodes that could join."""
    stores = Stores()
    stores.put(OURS, THEIRS)
    for number in range(3):
        stores.put(record(Change("node", number, 1, 1)), record(Change("pod", number, 1, 0)))
    stores.put(*(record(Change("node", number, 1, 0)) for number in (3, 4)))
    stores.put(record(Change("slice", 0, 2, 0)), record(Change("slice", 2, 1, 2)))
    return stores


def fresh(stores: Stores) -> Observer:
    return Observer(sets=stores.sets, slices=stores.slices, nodes=stores.nodes, pods=stores.pods)


def compare(stores: Stores, owner: NodeSet, asked: Demand | None) -> None:
    seen, rebuilt = stores.take(owner, asked), fresh(stores).snapshot(owner, asked)
    assert (seen.wait is None) == (rebuilt.wait is None), "how long it is depends on when somebody was first missed"
    assert replace(seen, wait=None) == replace(rebuilt, wait=None)
    plain = replace(rebuilt, members=member_list([*rebuilt.members]))
    assert [view(seen) for view in VIEWS] == [view(plain) for view in VIEWS]
    plans = [
        plan(owner, one, revision="new", usable=asked is not None, batch=500, moment=NOW)
        for one in (seen, rebuilt, plain)
    ]
    assert plans[0] == plans[1] == plans[2]
    joined = [entry(one.name, at=one.node) for one in plans[0].joins]
    entries = [*(one.entry for one in plans[0].membership.members), *joined]
    assert writes(seen, plans[0].membership, joined) == spread(shards(seen.slices), entries)


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(history=st.lists(CHANGES, min_size=10, max_size=40), skipped=st.sets(st.integers(0, 40)))
async def test_a_survey_by_memory_is_the_survey_of_somebody_who_has_none(
    history: list[Change], skipped: set[int]
) -> None:
    stores = settled()
    try:
        compare(stores, OURS, ANY_NODE)
        for number, change in enumerate(history):
            (stores.put if change.how else stores.remove)(record(change))
            if number not in skipped:
                for owner in (OURS, THEIRS):
                    compare(stores, owner, None if change.how == 3 and change.what == "set" else ANY_NODE)
    finally:
        await stores.close()
