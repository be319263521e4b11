"""Templates that were in use: which one a Pod was made from, and which ones there are to go back to.

A revision is named after the content of its template, so that one that comes back is the one that it was. Its number
says in which order they were last in use.
"""

from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b
from typing import Any

from msgspec import Raw, json

from sunk.objects.members import ControllerRevision, NodeSet, ours, owned_by
from sunk.operator.nodeset.act.body import plain


def revision_of(template: Raw) -> str:
    return blake2b(plain(template), digest_size=5).hexdigest()


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
