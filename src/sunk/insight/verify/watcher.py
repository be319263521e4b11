"""Both sides of a cluster, followed, and every law that is broken meanwhile."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct

from sunk.insight.nodepods import BY_NODE, NODE_PODS, NodePod, by_node
from sunk.insight.verify import laws
from sunk.insight.verify.faults import Fault
from sunk.insight.verify.laws import OwnedEntry, Snapshot
from sunk.insight.verify.locklaws import LINGER
from sunk.kube.api.client import EVERYWHERE, Client, Scope
from sunk.kube.cache.collection import Collection
from sunk.kube.cache.store import Store
from sunk.kube.core import NODES, PODS, Node, Pod
from sunk.kube.errors import Forbidden
from sunk.kube.resource import Key, Resource
from sunk.kube.tasks import running
from sunk.model import hostlist, loopclock, names
from sunk.model.contract import keptdrains, lock
from sunk.objects.computepods import cleared, terminating
from sunk.objects.nodesets import NODESETS, NODESLICES, NodeSet, NodeSlice
from sunk.slurm.mirror.confidence import Known, Stale, Unknown
from sunk.slurm.mirror.mirror import Mirror
from sunk.slurm.records import Job, Node as Row

CALM: Final = 0.2
PERIOD: Final = 1.0
SHOWN_REASON: Final = 100
_COMPUTE: Final = f"{names.COMPONENT}={names.COMPUTE}"


class Breach(Struct, frozen=True):
    """A law that was broken, and for how many seconds that has lasted."""

    fault: Fault
    lasted: float = 0.0


class SuspectedDeletion(Struct, frozen=True):
    """A Pod that was told to go while a job held its node by the last read, which may be older than the job's end."""

    pod: str
    at: float
    """When that was heard, by the clock."""
    faults: tuple[Fault, ...]


class FaultTimer:
    """Tells of each fault once, when it has lasted for longer than it may, and by `patience` more."""

    def __init__(self, *, patience: float = 0.0) -> None:
        self._patience = patience
        self._since: dict[tuple[int, str, str], float] = {}
        self._told: set[tuple[int, str, str]] = set()

    def look(self, found: Iterable[Fault], *, now: float) -> Iterator[Breach]:
        seen = {(one.law, one.topic, one.about): one for one in found}
        self._since = {key: self._since.get(key, now) for key in seen}
        self._told &= seen.keys()
        for key, fault in seen.items():
            lasted = now - self._since[key]
            if lasted >= fault.grace + self._patience and key not in self._told:
                self._told.add(key)
                yield Breach(fault, lasted)


class NewestEvent:
    """Which came last at each node: a new cause for a drain of ours, or somebody else's drain."""

    def __init__(self) -> None:
        self._caused: dict[str, float] = {}
        self._drained: dict[str, float] = {}

    def caused(self, name: str, *, now: float) -> None:
        self._caused[name] = now

    def drained(self, name: str, *, now: float) -> None:
        self._drained[name] = now

    def young(self, name: str, *, now: float) -> float | None:
        """How old the newest cause is; None if there is none that is newer than the drain."""
        caused = self._caused.get(name)
        return None if caused is None or caused <= self._drained.get(name, caused - 1) else now - caused


class OwedDrains:
    """Drains that people had put on machines whose Node was deleted since: Slurm owes them until they are seen there again.

    Of one cluster.
    """

    def __init__(self, cluster: str, *, nodes: Store[Node], slices: Store[NodeSlice]) -> None:
        self._cluster = cluster
        self._nodes = nodes
        self._slices = slices
        self.drains: Final[dict[str, str]] = {}
        """By Node."""

    def node(self, key: Key, before: Node | None, after: Node | None) -> None:
        """Remember what a Node says of a person's drain when its object goes."""
        if before is None or (after is not None and after.metadata.uid == before.metadata.uid):
            return
        if said := keptdrains.on_node(before.metadata.annotations, self._cluster):
            self.drains[key.name] = said[:SHOWN_REASON]

    def row(self, name: str, before: Row | None, after: Row | None) -> None:
        """Hear that somebody's drain is on, or was lifted.

        One that went with its record is still owed. So is one that is still on while the Node is away: its record goes
        next, and changes once more before it does.
        """
        if not self.drains or after is None or not any(laws.foreign(row) for row in (before, after) if row is not None):
            return
        for entry in (entry for one in self._slices.all() for entry in one.spec.entries):
            if entry.name == name and Key("", entry.node) in self._nodes:
                self.drains.pop(entry.node, None)


class Watcher:
    """Follows one namespace, and the Slurm of one cluster there if a mirror of it is given."""

    def __init__(  # noqa: PLR0913 - one keyword per trait
        self,
        client: Client,
        namespace: str,
        *,
        cluster: str = "",
        mirror: Mirror | None = None,
        patience: float = 0.0,
        linger: float = LINGER,
    ) -> None:
        where = Scope(namespace=namespace)
        self._client = client
        self._cluster = cluster
        self._mirror = mirror
        self.sets: Final[Collection[NodeSet]] = Collection(client, NODESETS, where)
        self.slices: Final[Collection[NodeSlice]] = Collection(client, NODESLICES, where)
        self.pods: Final[Collection[Pod]] = Collection(client, PODS, Scope(namespace=namespace, labels=_COMPUTE))
        self.nodes: Final[Collection[Node]] = Collection(client, NODES)
        self.others: Final[Collection[NodePod]] = Collection(client, NODE_PODS, indexes={BY_NODE: by_node})
        self.changes = 0
        self._linger = linger
        self._sees: dict[str, bool] = {}
        """What may be read in the whole cluster, as far as it was asked."""
        self._lasting = FaultTimer(patience=patience)
        self._acts: list[Breach] = []
        self._newest = NewestEvent()
        self._lifted: dict[str, str] = {}
        self._suspicions: list[SuspectedDeletion] = []
        self._owed = OwedDrains(
            keptdrains.cluster(namespace=namespace, name=cluster), nodes=self.nodes.store, slices=self.slices.store
        )
        self._changed = asyncio.Event()

    async def breaches(self) -> AsyncGenerator[Breach]:
        """Each law that is broken, as it is; for ever."""
        async with self._following():
            while True:
                await self._look_closer()
                acts, self._acts = self._acts, []
                for breach in (*acts, *self._lasting.look(laws.faults(self.sides()), now=loopclock.now())):
                    yield breach
                await self._pause()

    async def sees_nodes(self) -> bool:
        """Whether Nodes may be read: the syncer's account may not, nor many a person's."""
        return await self._may_read(NODES)

    async def sees_others(self) -> bool:
        """Whether Pods of all namespaces may be read, to see who is on a locked Node."""
        return await self.sees_nodes() and await self._may_read(NODE_PODS)

    async def _may_read(self, resource: Resource[Any]) -> bool:
        if resource.plural not in self._sees:
            try:
                await anext(self._client.pages(resource, EVERYWHERE, limit=1))
            except Forbidden:
                self._sees[resource.plural] = False
            else:
                self._sees[resource.plural] = True
        return self._sees[resource.plural]

    @property
    def lost_slurm(self) -> str:
        """Why nothing can be said about Slurm now, though it is looked at; empty if something can."""
        state = None if self._mirror is None else self._mirror.state
        return state.reason if isinstance(state, Unknown) else ""

    def sides(self) -> Snapshot:
        members: dict[str, tuple[OwnedEntry, ...]] = {}
        for one in self.slices.store.all():
            for entry in one.spec.entries:
                held = OwnedEntry(entry, owner=one.spec.node_set_uid, cluster=one.spec.cluster)
                members[entry.name] = (*members.get(entry.name, ()), held)
        known = self._mirror is not None and isinstance(self._mirror.state, Known)
        return Snapshot(
            members=members,
            pods={pod.metadata.name: pod for pod in self.pods.store.all()},
            sets={one.metadata.uid: one for one in self.sets.store.all()},
            nodes={one.metadata.name: one for one in self.nodes.store.all()} if self._sees.get(NODES.plural) else None,
            rows={row.name: row for row in self._mirror.nodes.all()} if self._mirror and known else None,
            jobs=holding(self._mirror.jobs.all()) if self._mirror and known else {},
            cluster=self._cluster,
            owed=self._owed.drains,
            lifted=self._lifted,
            others=self._on_locked_nodes() if self._sees.get(NODE_PODS.plural) else None,
            linger=self._linger,
        )

    def _on_locked_nodes(self) -> dict[str, tuple[NodePod, ...]]:
        notes = {node.metadata.name: node.metadata.annotations for node in self.nodes.store.all()}
        locked = (name for name, found in notes.items() if found.get(names.LOCK) in lock.HELD)
        return {name: self.others.store.by(BY_NODE, name) for name in locked}

    @asynccontextmanager
    async def _following(self) -> AsyncIterator[None]:
        followed: list[Collection[Any]] = [self.sets, self.slices, self.pods]
        followed += [self.nodes] if await self.sees_nodes() else []
        # Pods of others change all the time, and are looked at now and then.
        every = [*followed, *([self.others] if await self.sees_others() else [])]
        duties = {f"follow {one.store.name}": one.run() for one in every}
        ends = [*self._subscribe(followed)]
        async with running(duties):
            try:
                for one in every:
                    await one.store.complete()
                yield
            finally:
                for end in ends:
                    end()

    def _subscribe(self, followed: Iterable[Collection[Any]]) -> Iterator[Callable[[], None]]:
        for one in followed:
            yield one.store.subscribe(self._note)
        yield self.pods.store.subscribe(self._pod)
        yield self.nodes.store.subscribe(self._owed.node)
        if self._mirror is not None:
            yield self._mirror.nodes.subscribe(self._row)
            yield self._mirror.jobs.subscribe(self._note)

    def _note(self, *_: object) -> None:
        self.changes += 1
        self._changed.set()

    def _pod(self, _: Key, before: Pod | None, after: Pod | None) -> None:
        # Both sides are put together only for what is judged: Pods change all the time, and go seldom.
        if before is not None and after is not None and laws.causes_of(after) > laws.causes_of(before):
            self._newest.caused(after.metadata.name, now=loopclock.now())
        if before is None or (after is not None and not terminating(after)):
            return
        found = tuple(laws.deleted_pod(self.sides(), before, after))
        if found and cleared(before):
            self._suspicions.append(SuspectedDeletion(before.metadata.name, at=time.time(), faults=found))
        else:
            self._acts += map(Breach, found)

    async def _look_closer(self) -> None:
        """Ask Slurm again about Pods that seem to have gone under a job: a job may end a moment before it is read."""
        if not self._suspicions or self._mirror is None:
            return
        with suppress(Stale):  # then it stays a suspicion until Slurm answers
            await self._mirror.read_after()
            found, self._suspicions = self._suspicions, []
            for one in found:
                if one.pod in holding(self._mirror.jobs.all(), since=one.at):
                    self._acts += map(Breach, one.faults)

    def _row(self, name: str, before: Row | None, after: Row | None) -> None:
        self._note()
        self._owed.row(name, before, after)
        if before is not None and after is None:
            self._acts += map(Breach, laws.deleted_row(self.sides(), before, now=datetime.now(UTC)))
        if (
            before is not None
            and after is not None
            and (before.state_bits, before.reason)
            != (
                after.state_bits,
                after.reason,
            )
        ):
            self._judge_drain(before, after)

    def _judge_drain(self, before: Row, after: Row) -> None:
        young = self._newest.young(after.name, now=loopclock.now())
        self._acts += map(Breach, laws.replaced_drain(self.sides(), before, after, young=young))
        if laws.foreign(after) and after.reason != before.reason:
            self._newest.drained(after.name, now=loopclock.now())
        if text := laws.lifted_drain(before, after):
            self._lifted[after.name] = text
        elif self._lifted.get(after.name) != after.reason or after.state.out_of_service:
            self._lifted.pop(after.name, None)

    async def _pause(self) -> None:
        """Wait for a change, but look now and then without one: what must not last is noticed by the clock."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PERIOD):
                await self._changed.wait()
        await asyncio.sleep(CALM)
        self._changed.clear()


def holding(jobs: Iterable[Job], *, since: float | None = None) -> dict[str, tuple[int, ...]]:
    """The jobs that hold a node, by its name; also those that did after a time."""
    found: dict[str, tuple[int, ...]] = {}
    for job in jobs:
        if job.state.holds_nodes or (since is not None and job.end_time > since):
            for name in hostlist.expand(job.nodes):
                found[name] = (*found.get(name, ()), job.id)
    return found
