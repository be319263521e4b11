"""The mould of a NodeSet's Pods: its template looked into once for each revision, and tried on the API server.

A template that makes no Pod is found out before anything is given up for it: the API server is asked to create one
without doing it. What it says (a field that does not exist, a class that is missing) becomes the NodeSet's condition,
and the Pods that there are stay as they are.
"""

import logging
from typing import Final

from msgspec import Struct

from sunk.kube.api.client import STRICTLY, Client
from sunk.kube.core import PODS
from sunk.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound, TooManyRequests
from sunk.kube.resource import Key
from sunk.model import loopclock
from sunk.model.refusal import Refusal
from sunk.objects.members import NodeSet
from sunk.operator.nodeset.act.body import Mould
from sunk.operator.nodeset.act.revision import revision_of
from sunk.operator.nodeset.act.template import read
from sunk.operator.nodeset.decide.feasible import Demand, demand

log = logging.getLogger(__name__)

TRY_AGAIN: Final = 25.0
"""Seconds after which a refused template is tried again: what it lacked may be there by then."""
_REFUSED: Final = 400
_BROKEN: Final = 500


class Prepared(Struct, frozen=True):
    """What is known of a template. With a problem it makes no Pod, and says nothing about which Nodes fit either."""

    revision: str
    demand: Demand | None = None
    mould: Mould | None = None
    problem: str = ""


class _Source(Struct, frozen=True):
    """All that goes into a mould."""

    uid: str
    prefix: str
    cluster: str
    template: bytes


class _Known(Struct, frozen=True):
    source: _Source
    prepared: Prepared
    until: float
    """When it is to be tried again."""


class Moulds:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[Key, _Known] = {}

    def forget(self, key: Key) -> None:
        self._known.pop(key, None)

    async def of(self, owner: NodeSet) -> Prepared:
        source, known = _source(owner), self._known.get(owner.key)
        if known is not None and known.source == source and loopclock.now() < known.until:
            return known.prepared
        found = await self._prepared(owner)
        until = loopclock.now() + TRY_AGAIN if found.problem else float("inf")
        self._known[owner.key] = _Known(source, found, until)
        return found

    async def _prepared(self, owner: NodeSet) -> Prepared:
        revision = revision_of(owner.spec.template)
        try:
            wanted = demand(read(owner.spec.template))
        except Refusal as wrong:
            return Prepared(revision, problem=str(wrong))
        mould = Mould(owner, revision=revision)
        # A set that is going away makes no Pods, and must not wait for somebody to say whether it could.
        problem = "" if owner.metadata.deletion_timestamp else await self._refusal(mould, owner)
        return Prepared(revision, problem=problem) if problem else Prepared(revision, demand=wanted, mould=mould)

    async def _refusal(self, mould: Mould, owner: NodeSet) -> str:
        """What the API server has against a Pod of this mould; empty if nothing."""
        body = mould.pod(f"{_prefix(owner)}-dry-run", node="dry-run")
        path = PODS.path(owner.metadata.namespace)
        try:
            await self._client.request("POST", path, query=STRICTLY | {"dryRun": "All"}, body=body)
        except (Conflict, NotFound, TooManyRequests):
            raise  # nothing is said about the template
        except AlreadyExists:
            return ""  # somebody has a Pod of that name; all that could be said of this one was found right before that
        except ApiError as refused:
            if _is_full(refused):
                return ""
            if _REFUSED <= refused.status < _BROKEN:
                return f"the API server takes no Pod of it: {refused.message}"
            raise
        return ""


def _is_full(refused: ApiError) -> bool:
    """A quota that is used up: the Pod on trial is one more than there are, and says nothing about its template."""
    return isinstance(refused, Forbidden) and "exceeded quota" in refused.message


def _source(owner: NodeSet) -> _Source:
    return _Source(
        uid=owner.metadata.uid,
        prefix=_prefix(owner),
        cluster=owner.spec.cluster,
        template=bytes(owner.spec.template),
    )


def _prefix(owner: NodeSet) -> str:
    return owner.spec.pod_name_prefix or owner.metadata.name
