"""Somebody who sees every change of Nodes, Pods, NodeSets and NodeSlices, and judges each against the laws.

Each resource has a watch of its own, and these run at different speeds. But versions are given out by one etcd for all
of them: put in the order of their versions, changes are in the order in which they happened.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from tests.integration.nodeset.stage import Stage

from sunk.kube.api.client import Scope
from sunk.kube.cache.store import number
from sunk.kube.cache.view import Changed, Deleted
from sunk.kube.cache.watch import watch
from sunk.kube.core import NODES, PODS, Node, Pod
from sunk.kube.resource import Key, Record, Resource
from sunk.local.fakekubelet import FLEET
from sunk.model import names
from sunk.model.nodeslice import MOST_ENTRIES, Entry
from sunk.objects.computepods import cleared, finished, has_run, node_of
from sunk.objects.nodesets import NODESETS, NODESLICES, NodeSet, NodeSlice, claim_of, owner_uid

PATIENCE = 120.0


class Seen(Struct, frozen=True):
    """One change."""

    what: str
    record: Record
    gone: bool


class Witness:
    """Run its `duties` from before the first act; `judge` at the end.

    `by_hand` are uids of Pods that tests delete, and names of Nodes whose claim they take off.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._seen: list[Seen] = []
        self._last: dict[tuple[str, Key], str] = {}
        self.by_hand: set[str] = set()
        inside = Scope(namespace=stage.namespace)
        self._watched: dict[str, tuple[Resource[Any], Scope]] = {
            "nodes": (NODES, Scope(labels=f"{FLEET}={stage.fleet}")),
            "pods": (PODS, inside),
            "sets": (NODESETS, inside),
            "slices": (NODESLICES, inside),
        }

    def duties(self) -> dict[str, Any]:
        return {f"witness of {what}": self._look_at(what) for what in self._watched}

    async def _look_at(self, what: str) -> None:
        resource, scope = self._watched[what]
        async with watch(self._stage.client, resource, scope) as events:
            async for event in events:
                match event:
                    case Changed(record):
                        self._seen.append(Seen(what, record, gone=False))
                        self._last[what, record.key] = record.metadata.resource_version
                    case Deleted(record):
                        self._seen.append(Seen(what, record, gone=True))
                        self._last.pop((what, record.key), None)

    async def caught_up(self) -> None:
        async with asyncio.timeout(PATIENCE):
            for what, (resource, scope) in self._watched.items():
                while True:
                    listing = await self._stage.client.list(resource, scope)
                    there = {(what, one.key): one.metadata.resource_version for one in listing.items}
                    if there == {key: version for key, version in self._last.items() if key[0] == what}:
                        break
                    await asyncio.sleep(0.05)

    def history(self, what: str) -> list[Seen]:
        """What happened to one kind of objects, in the order of happening."""
        return sorted((one for one in self._seen if one.what == what), key=lambda one: number(one.record))

    def judge(self) -> list[str]:
        """Every breach of a law, told in the order of happening."""
        court = Court(self.by_hand)
        return [
            breach for seen in sorted(self._seen, key=lambda one: number(one.record)) for breach in court.hear(seen)
        ]


class Court:
    """The world as it was after each change, and what is wrong about the next one."""

    def __init__(self, by_hand: set[str]) -> None:
        self._by_hand = by_hand
        self._nodes: dict[Key, Node] = {}
        self._pods: dict[Key, Pod] = {}
        self._sets: dict[Key, NodeSet] = {}
        self._slices: dict[Key, NodeSlice] = {}
        self._reborn: set[str] = set()

    def hear(self, seen: Seen) -> Iterator[str]:
        found = {
            "nodes": self._node,
            "pods": self._pod,
            "sets": self._set,
            "slices": self._slice,
        }[seen.what](seen.record, gone=seen.gone)
        for breach in found:
            yield f"version {seen.record.metadata.resource_version}: {breach}"

    # What happens

    def _node(self, node: Any, *, gone: bool) -> Iterator[str]:
        _put(self._nodes, node, gone=gone)
        if gone:
            self._reborn.add(node.metadata.name)
            return
        claim = claim_of(node)
        for uid, entry in self._entries_on(node.metadata.name):
            if claim not in ("", uid) and self._lives(claim):
                yield f"Node {node.metadata.name} is claimed by {claim} and has the entry {entry} of {uid}"

    def _set(self, one: Any, *, gone: bool) -> Iterator[str]:
        _put(self._sets, one, gone=gone)
        yield from ()

    def _pod(self, pod: Any, *, gone: bool) -> Iterator[str]:
        before = self._pods.get(pod.key)
        if before is not None and before.metadata.uid == pod.metadata.uid:
            ending = gone or pod.metadata.deletion_timestamp is not None
            if ending and before.metadata.deletion_timestamp is None:
                yield from self._unlawful_end(before)
        _put(self._pods, pod, gone=gone)
        if before is None:
            yield from self._beside(pod)

    def _slice(self, one: Any, *, gone: bool) -> Iterator[str]:
        uid = one.spec.node_set_uid
        before, released = self._members(uid), self._released(uid)
        _put(self._slices, one, gone=gone)
        after = self._members(uid)
        if not gone and len(one.spec.entries) > MOST_ENTRIES:
            yield f"{one.key} has {len(one.spec.entries)} entries"
        if self._lives(uid):
            for name in before.keys() - after.keys():
                yield from self._unlawful_loss(before[name], uid=uid, released=released)
        for name, entry in after.items():
            if name in before and before[name].node != entry.node:
                yield f"{name} was of Node {before[name].node} and is now of {entry.node}"
            if name not in before:
                yield from self._unlawful_gain(entry, uid=uid)

    # What is wrong

    def _unlawful_end(self, pod: Pod) -> Iterator[str]:
        at = pod.metadata
        # A Pod of a Node that is gone is ended by Kubernetes.
        if at.uid in self._by_hand or Key("", pod.spec.node_name) not in self._nodes:
            return
        if has_run(pod) and not cleared(pod) and not self._forced(owner_uid(pod)):
            yield f"Pod {at.name} may have held a job, and was deleted without clearance: {at.annotations}"

    def _beside(self, pod: Pod) -> Iterator[str]:
        node = node_of(pod)
        others = [one for one in self._pods.values() if node_of(one) == node and owner_uid(one) and not finished(one)]
        if owner_uid(pod) and len(others) > 1:
            yield f"Node {node} has several Pods: {sorted(one.metadata.name for one in others)}"

    def _unlawful_loss(self, entry: Entry, *, uid: str, released: set[str]) -> Iterator[str]:
        alive = [pod for pod in self._pods.values() if pod.metadata.name == entry.name and owner_uid(pod) == uid]
        if entry.state != "leaving" or alive or (entry.name not in released and not self._forced(uid)):
            yield f"{entry} was taken out: Pods {len(alive)}, released {sorted(released)}"

    def _unlawful_gain(self, entry: Entry, *, uid: str) -> Iterator[str]:
        for other, there in self._entries_on(entry.node):
            if other != uid or there.name != entry.name:
                yield f"{entry} of {uid} came beside {there} of {other}"
        node = self._nodes.get(Key("", entry.node))
        if node is None:
            return
        lost = entry.node in self._reborn or entry.node in self._by_hand
        allowed = {uid, ""} if lost else {uid}
        if claim_of(node) not in allowed:
            yield f"{entry} of {uid} came while its Node was claimed by {claim_of(node) or 'nobody'}"

    # The world

    def _members(self, uid: str) -> dict[str, Entry]:
        ours = [one for one in self._slices.values() if one.spec.node_set_uid == uid]
        return {entry.name: entry for one in ours for entry in one.spec.entries}

    def _released(self, uid: str) -> set[str]:
        ours = [one for one in self._slices.values() if one.spec.node_set_uid == uid]
        return {name for one in ours for name in one.status.released}

    def _entries_on(self, node: str) -> Iterator[tuple[str, Entry]]:
        for one in self._slices.values():
            for entry in one.spec.entries:
                if entry.node == node and self._lives(one.spec.node_set_uid):
                    yield one.spec.node_set_uid, entry

    def _lives(self, uid: str) -> bool:
        return any(one.metadata.uid == uid for one in self._sets.values())

    def _forced(self, uid: str) -> bool:
        found = [one for one in self._sets.values() if one.metadata.uid == uid]
        return any(one.metadata.annotations.get(names.FORCE_DELETION) == "true" for one in found)


def _put(world: dict[Key, Any], record: Record, *, gone: bool) -> None:
    if gone:
        world.pop(record.key, None)
    else:
        world[record.key] = record
