"""The templates that a NodeSet had, for people, and a way back to one of them.

Going back is a change of the spec like any other: the old template is written into it, the controller finds that it
knows it already, and updates Pods as the strategy says. So nothing here touches a Pod.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec import Raw, Struct, json

from sunk.kube.api.client import Client, Scope
from sunk.kube.api.patch import Json
from sunk.kube.core import PODS, Pod
from sunk.kube.errors import Conflict, NotFound
from sunk.kube.resource import Key
from sunk.model import names
from sunk.model.cluster.kind import SLURMCLUSTER
from sunk.model.refusal import Refusal
from sunk.objects.computepods import revision
from sunk.objects.nodesets import NODESETS, REVISIONS, ControllerRevision, NodeSet, owner_uid
from sunk.operator.nodeset.act.revisions import object_name, revision_of


class TemplateRevision(Struct, frozen=True):
    """A template that is kept."""

    number: int
    """The higher, the later it was last in use."""
    name: str
    """The hash that Pods made from it carry as a label."""
    made: datetime | None
    pods: int
    """How many Pods were made from it and are there."""
    current: bool
    """It is what the NodeSet says now."""


class _Data(Struct):
    spec: "_Spec"


class _Spec(Struct):
    template: Raw


async def history(client: Client, key: Key) -> tuple[TemplateRevision, ...]:
    """The templates of a NodeSet, the newest last."""
    owner = await _found(client, key)
    pods = await client.list(PODS, _of(owner))
    return _kept(owner, await _revisions(client, owner), (pod for pod in pods.items if _belongs(pod, owner)))


async def roll_back(client: Client, key: Key, *, to: int | None = None) -> TemplateRevision:
    """Put an older template back: that of this number, or the one before the present one. Returns which.

    Where the NodeSet has it already, nothing is written.
    """
    owner = await _found(client, key)
    require_own(owner)
    revisions = await _revisions(client, owner)
    picked = chosen(_kept(owner, revisions, ()), key=key, to=to)
    if picked.current:
        return picked
    (source,) = (one for one in revisions if one.metadata.name == object_name(owner, picked.name))
    # A merge patch would leave in place whatever the old template does not mention.
    change = Json(
        [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": owner.metadata.resource_version},
            {"op": "replace", "path": "/spec/template", "value": json.decode(source.data, type=_Data).spec.template},
        ]
    )
    try:
        await client.patch(NODESETS, key.name, change, namespace=key.namespace)
    except Conflict as changed:
        raise Refusal(f"NodeSet {key} was changed by someone else in the meantime: check it and try again") from changed
    return picked


def require_own(owner: NodeSet) -> None:
    """A SlurmCluster writes the templates of its NodeSets, and would undo it at once."""
    for reference in owner.metadata.owner_references:
        if reference.controller and reference.kind == SLURMCLUSTER.name:
            raise Refusal(
                f"the template of NodeSet {owner.metadata.name} is written by SlurmCluster {reference.name}. Go back to "
                "the previous values instead: `helm rollback`."
            )


async def _found(client: Client, key: Key) -> NodeSet:
    try:
        return await client.get(NODESETS, key.name, namespace=key.namespace)
    except NotFound as gone:
        raise Refusal(await _others(client, key)) from gone


async def _others(client: Client, key: Key) -> str:
    """Say that there is no such NodeSet, and which ones there are instead."""
    try:
        listing = await client.list(NODESETS, Scope(namespace=key.namespace))
    except NotFound:
        return 'the cluster has no NodeSet resource: install the chart "sunk", or use another context'
    there = ", ".join(sorted(one.metadata.name for one in listing.items))
    advice = f"found {there}" if there else "it has none; choose another namespace with --namespace"
    return f"no NodeSet {key.name} in namespace {key.namespace}: {advice}"


async def _revisions(client: Client, owner: NodeSet) -> list[ControllerRevision]:
    listing = await client.list(REVISIONS, _of(owner))
    found = (one for one in listing.items if owner_uid(one) == owner.metadata.uid)
    return sorted(found, key=lambda one: one.revision)


def _of(owner: NodeSet) -> Scope:
    return Scope(namespace=owner.metadata.namespace, labels=f"{names.NODESET}={owner.metadata.name}")


def _belongs(pod: Pod, owner: NodeSet) -> bool:
    return owner_uid(pod) == owner.metadata.uid


def _kept(owner: NodeSet, revisions: Iterable[ControllerRevision], pods: Iterable[Pod]) -> tuple[TemplateRevision, ...]:
    used, present = Counter(map(revision, pods)), revision_of(owner.spec.template)
    hashes = ((one, one.metadata.name.removeprefix(object_name(owner, ""))) for one in revisions)
    return tuple(
        TemplateRevision(one.revision, name, one.metadata.creation_timestamp, pods=used[name], current=name == present)
        for one, name in hashes
    )


def chosen(kept: Sequence[TemplateRevision], *, key: Key, to: int | None) -> TemplateRevision:
    """Which one to go back to, of those in their order: that of a number, or the newest that is not there now."""
    able = [one for one in kept if (one.number == to if to is not None else not one.current)]
    if able:
        return able[-1]
    there = ", ".join(str(one.number) for one in kept) or "none yet"
    if to is None:
        raise Refusal(f"NodeSet {key} has no older template to roll back to (stored: {there})")
    raise Refusal(f"NodeSet {key} has no revision {to} (stored: {there}): choose one of these with --to")
