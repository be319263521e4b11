"""A world small enough to see through: Nodes, members and Pods, to which plans are carried out without a hitch."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace
from tests.unit.operator.nodeset.factories import CLEARANCE, NEW, NOW, nodeset, pod

from sunk.kube.core import Pod
from sunk.model import names
from sunk.model.nodeslice import Entry
from sunk.objects.nodesets import NodeSet
from sunk.operator.nodeset.decide.plan import NodeSetPlan, plan
from sunk.operator.nodeset.observe.members import Member, member_list
from sunk.operator.nodeset.observe.snapshot import Candidate, Snapshot


class World:
    def __init__(self, nodes: Mapping[str, bool], owner: NodeSet | None = None) -> None:
        self.nodes = dict(nodes)
        """Whether each of them fits."""
        self.owner = owner or nodeset()
        self.entries: dict[str, Entry] = {}
        self.pods: dict[str, Pod] = {}
        self.claimed: set[str] = set()
        self.released: set[str] = set()
        self.made = 0

    def want(self, **spec: Any) -> None:
        """Change the spec; that it is a change is noticed until a plan was carried out."""
        fresh = nodeset(meta={"generation": self.owner.metadata.generation + 1}, **spec)
        self.owner = replace(fresh, status=self.owner.status)

    def annotate(self, **annotations: str) -> None:
        self.owner = replace(self.owner, metadata=replace(self.owner.metadata, annotations=annotations))

    def snapshot(self) -> Snapshot:
        members = [self._member(entry) for entry in self.entries.values()]
        taken = {entry.node for entry in self.entries.values()}
        spare = [node for node, fits in sorted(self.nodes.items()) if fits and node not in taken]
        return Snapshot(
            members=member_list(members),
            candidates=tuple(Candidate(node=node, name=f"gpu-{node}") for node in spare),
            slices=(),
            recorded=True,
            refused=(),
            unreadable=(),
            claimed=frozenset(self.claimed),
            wait=None,
        )

    def _member(self, entry: Entry) -> Member:
        unfit = "" if self.nodes.get(entry.node) else "its Node does not fit"
        return Member(entry, self.pods.get(entry.name), unfit, entry.name in self.released)

    def plan(self, *, revision: str = NEW, usable: bool = True, batch: int = 500) -> NodeSetPlan:
        return plan(self.owner, self.snapshot(), revision=revision, usable=usable, batch=batch, moment=NOW)

    def carry_out(self, todo: NodeSetPlan, *, revision: str = NEW) -> None:
        joined = [Entry(name=one.name, node=one.node) for one in todo.joins]
        self.entries = {one.name: one for one in (*(member.entry for member in todo.membership.members), *joined)}
        for entry in (*todo.pods.create, *joined):
            assert entry.name not in self.pods, "a second Pod for one member"
            self.made += 1
            fresh = pod(entry.name, at=entry.node, ready=False, started=False, revision=revision, age=-self.made)
            self.pods[entry.name] = fresh
        for mark in todo.pods.mark:
            self._annotate(mark.pod, mark.reason)
        for one in (*(removal.pod for removal in todo.pods.remove), *todo.pods.recreate):
            del self.pods[one.metadata.name]
        self.claimed = (self.claimed | {entry.node for entry in self.entries.values()}) - set(todo.stray_nodes)
        seen = replace(self.owner.status, observed_generation=self.owner.metadata.generation)
        self.owner = replace(self.owner, status=seen)

    def _annotate(self, one: Pod, reason: str | None) -> None:
        said = {names.PENDING_DELETION: reason} if reason is not None else {}
        self.pods[one.metadata.name] = replace(one, metadata=replace(one.metadata, annotations=said))

    # What others do

    def kubelets_start_pods(self) -> None:
        for name, one in self.pods.items():
            fresh = pod(name, at=one.spec.node_name)
            self.pods[name] = replace(one, status=fresh.status)

    def syncer_clears(self) -> None:
        """Whoever is marked is drained and idle, and Slurm forgets those that have no Pod."""
        for name, one in self.pods.items():
            said = one.metadata.annotations
            if names.PENDING_DELETION in said:
                cleared = said | {names.CLEAR_TO_DELETE: CLEARANCE}
                self.pods[name] = replace(one, metadata=replace(one.metadata, annotations=cleared))
        leaving = {name for name, entry in self.entries.items() if entry.state == "leaving"}
        self.released = leaving - self.pods.keys()
