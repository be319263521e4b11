"""Taints and tolerations by Kubernetes' rules, and who stays on a Node that is locked.

Kubernetes asks two questions, and they differ. May a Pod be placed here? Any toleration that matches is enough. How
long may it stay under a NoExecute taint? There the *first* toleration that matches decides, in the order of the list:
if it has `tolerationSeconds`, the Pod is evicted then, though a later one would let it stay for good.
"""

import math
import re
from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from sunk.model.kubernetes.selection import integer
from sunk.model.names import LOCK

REPELLING: Final = frozenset({"NoSchedule", "NoExecute"})
"""Effects that keep Pods away; the third, PreferNoSchedule, is a wish."""

_CANONICAL: Final = re.compile(r"0|-?[1-9][0-9]*")


class Taint(Protocol):
    @property
    def key(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def effect(self) -> str: ...


class Toleration(Protocol):
    @property
    def key(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def effect(self) -> str: ...
    @property
    def toleration_seconds(self) -> int | None: ...


class _Lock(NamedTuple):
    key: str = LOCK
    value: str = "true"
    effect: str = "NoExecute"


LOCK_TAINT: Final[Taint] = _Lock()
"""The taint of a Node that Slurm has for itself."""


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Whether it keeps no Pod with these tolerations from being placed."""
    return _first(taint, tolerations) is not None


def endured(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Whether a Pod with these tolerations may be placed and also stays for good: a bounded toleration is none."""
    return endurance(taint, tolerations) == math.inf


def endurance(taint: Taint, tolerations: Iterable[Toleration]) -> float:
    """For how many seconds a Pod with these tolerations stays; infinite if for good."""
    found = _first(taint, tolerations)
    if found is None:
        return 0
    return math.inf if found.toleration_seconds is None else max(found.toleration_seconds, 0)


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """The first taint that keeps a Pod with these tolerations away; none if it may be placed."""
    known = tuple(tolerations)
    return next((taint for taint in taints if taint.effect in REPELLING and not tolerated(taint, known)), None)


def holds_out(tolerations: Iterable[Toleration]) -> bool:
    """Whether a Pod stays on a Node that is locked, without bound."""
    return endured(LOCK_TAINT, tolerations)


def described(taint: Taint) -> str:
    """As kubectl writes it: `key=value:effect`."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _first(taint: Taint, tolerations: Iterable[Toleration]) -> Toleration | None:
    for one in tolerations:
        if (one.key == taint.key or not one.key) and (one.effect == taint.effect or not one.effect):
            match one.operator:
                case "Exists":
                    return one
                case "Equal" | "":
                    # Without a key only Exists is valid, and the API server refuses the rest.
                    if one.key and one.value == taint.value:
                        return one
                case "Gt" | "Lt" if _compares(one, taint):
                    return one
    return None


def _compares(toleration: Toleration, taint: Taint) -> bool:
    """Compare as Kubernetes 1.35 began to: the taint's number against the toleration's, both plain and of 64 bits."""
    if not (toleration.key and _CANONICAL.fullmatch(taint.value) and _CANONICAL.fullmatch(toleration.value)):
        return False
    found, bound = integer(taint.value), integer(toleration.value)
    if found is None or bound is None:
        return False
    return found > bound if toleration.operator == "Gt" else found < bound
