"""The four ways to change a part of an object, each with its own media type.

A patch may carry `metadata.resourceVersion` and `metadata.uid`, and is then refused where the object is not the
version (Conflict) or not the one (Invalid: uids are immutable) that the change was decided on.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

Body = Mapping[str, Any] | Struct


class Merge(Struct, frozen=True):
    """JSON merge patch: `None` removes, lists are replaced whole. The only one besides Apply that CRDs know."""

    body: Body
    media = "application/merge-patch+json"


class Strategic(Struct, frozen=True):
    """Merge patch that knows keys of lists, so that one condition is set without touching the others."""

    body: Body
    media = "application/strategic-merge-patch+json"


class Json(Struct, frozen=True):
    """A list of operations; a `test` among them makes the whole depend on what is there."""

    body: Sequence[Mapping[str, Any]]
    media = "application/json-patch+json"


class Apply(Struct, frozen=True):
    """Server-side apply: the fields in the body are ours, the ones we no longer name are given up.

    `force` takes fields from another manager; without it the server answers Conflict and names the manager.
    """

    body: Body
    manager: str
    force: bool = False
    media = "application/apply-patch+yaml"  # JSON is YAML, and servers before 1.32 take no other name


Patch = Merge | Strategic | Json | Apply
