"""Templates that were in use: which one a Pod was made from, and which ones there are to go back to.

A revision is named after the content of its template, so that one that comes back is the one that it was. Its number
says in which order they were last in use. Each is kept as a ControllerRevision.
"""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any

from msgspec import Raw, json

from sunk.kube.api.client import Deletion, Preconditions
from sunk.kube.api.patch import Merge
from sunk.kube.core import Pod
from sunk.kube.errors import NotFound
from sunk.kube.resource import Key
from sunk.model import foreign
from sunk.objects.computepods import revision as of_pod
from sunk.objects.nodesets import ControllerRevision, NodeSet, index_value, ours, owned_by
from sunk.service.scoped import Scoped


def revision_of(template: Raw) -> str:
    return blake2b(plain(template), digest_size=5).hexdigest()


def plain(template: Raw) -> bytes:
    """The template in a form that is the same however it was written down."""
    try:
        return json.encode(foreign.tree(template), order="deterministic")
    except foreign.UnreadableJson:
        return bytes(template)  # no Pod is made from it, but what was tried has to have a name


def object_name(owner: NodeSet, revision: str) -> str:
    return f"{owner.metadata.name}-{revision}"


def newest(history: Iterable[ControllerRevision]) -> int:
    return max((one.revision for one in history), default=0)


def revision_body(owner: NodeSet, revision: str, *, number: int) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": object_name(owner, revision),
            "namespace": owner.metadata.namespace,
            "labels": ours(owner),
            "ownerReferences": [owned_by(owner)],
        },
        "revision": number,
        "data": {"spec": {"template": json.decode(owner.spec.template)}},
    }


def forgettable(
    history: Sequence[ControllerRevision], *, used: Collection[str], limit: int
) -> tuple[ControllerRevision, ...]:
    """The oldest ones beyond the limit; those in `used`, by the names of their objects, stay whatever their number."""
    old = sorted((one for one in history if one.metadata.name not in used), key=lambda one: one.revision)
    return tuple(old[: max(0, len(old) - limit)])


class RevisionHistory:
    def __init__(self, revisions: Scoped[ControllerRevision]) -> None:
        self._revisions = revisions

    async def keep(self, owner: NodeSet, revision: str, *, pods: Iterable[Pod]) -> None:
        """Have this revision be the newest, and forget those that are too old and that no Pod was made from."""
        history = self._revisions.by("owner", index_value(owner))
        key = Key(owner.metadata.namespace, object_name(owner, revision))
        # By owner: one of the same name may be left of a NodeSet that was deleted and made again.
        present = next((one for one in history if one.metadata.name == key.name), None)
        last = newest(history)
        if present is None:
            body = revision_body(owner, revision, number=last + 1)
            await self._revisions.of(key).create(key, body)
        elif present.revision < last:
            version = {"resourceVersion": present.metadata.resource_version}
            await self._revisions.of(key).patch(key, Merge({"metadata": version, "revision": last + 1}))
        if len(history) > owner.spec.revision_history_limit:
            await self._forget(owner, history, used={key.name} | {object_name(owner, of_pod(pod)) for pod in pods})

    async def _forget(self, owner: NodeSet, history: tuple[ControllerRevision, ...], *, used: set[str]) -> None:
        for old in forgettable(history, used=used, limit=owner.spec.revision_history_limit):
            with suppress(NotFound):
                how = Deletion(preconditions=Preconditions(uid=old.metadata.uid))
                await self._revisions.of(old.key).delete(old.key, how)
