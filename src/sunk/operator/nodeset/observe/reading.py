"""What there is of the members that a slice speaks of: the Pod of each, and whether its Node still fits."""

from collections.abc import Callable, Container, Iterable, Mapping

from sunk.kube.cache.store import Store
from sunk.kube.core import Node, Pod
from sunk.kube.resource import Key
from sunk.model.nodeslice import Entry
from sunk.objects.members import NodeSet
from sunk.operator.nodeset.act.claims import claim_of, claimed_for
from sunk.operator.nodeset.decide.fitting import Fitting
from sunk.operator.nodeset.observe.member import Member
from sunk.operator.nodeset.observe.members import Group
from sunk.operator.nodeset.observe.pages import Known, Page


class Reader:
    """Makes members of entries; those about whom nothing has changed are the same objects as before."""

    def __init__(  # noqa: PLR0913 - one for each thing that a member is made of
        self,
        owner: NodeSet,
        fitting: Fitting,
        *,
        nodes: Store[Node],
        is_free: Callable[[Node], bool],
        pods: Mapping[str, Pod],
        released: Container[str],
        left: Mapping[str, float],
    ) -> None:
        self._owner = owner
        self._fitting = fitting
        self._nodes = nodes
        self._is_free = is_free
        self._pods = pods
        self._released = released
        self._left = left

    def group(self, page: Page) -> Group:
        if page.group is not None:
            return page.group
        known: dict[str, Known] = {}
        found = Group([self._member(entry, page.known.get(entry.name), known) for entry in page.entries])
        page.read(found, known)
        return found

    def strangers(self, entries: Iterable[Entry]) -> Group:
        return Group([self._member(entry, None, {}) for entry in entries])

    def _member(self, entry: Entry, before: Known | None, known: dict[str, Known]) -> Member:
        node = self._nodes.get(Key("", entry.node))
        pod, free = self._pods.get(entry.name), entry.name in self._released
        if before is not None and before.node is node:
            member = before.member
            if member.entry is entry and member.pod is pod and member.released is free:
                known[entry.name] = before
                return member
        claimed = node is None or self._is_claimed(node, entry.name)
        traits = None if node is None else self._fitting.features(node)
        member = Member(entry, pod, self._why(entry, node), free, claimed, traits, absent=node is None)
        # What is not in these records cannot be remembered with them: the time, and whether another set exists.
        if node is not None and claim_of(node) in {"", self._fitting.uid}:
            known[entry.name] = Known(node, member)
        return member

    def _is_claimed(self, node: Node, name: str) -> bool:
        """The Node is marked as ours, or belongs to another set and cannot be."""
        return claimed_for(node, self._owner, name) or not self._is_ours_or_free(node)

    def _is_ours_or_free(self, node: Node) -> bool:
        return claim_of(node) == self._fitting.uid or self._is_free(node)

    def _why(self, entry: Entry, node: Node | None) -> str:
        """Why the Node of a member does not fit."""
        if node is None:
            return "" if self._left[entry.node] > 0 else "its Node is gone"
        if not self._is_ours_or_free(node):
            return "its Node belongs to another NodeSet"
        if self._fitting.demand is None and entry.state == "leaving":
            return entry.reason or "leaving"
        return self._fitting.why_not(node)
