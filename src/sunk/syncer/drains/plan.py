"""What Slurm is to be told because of Kubernetes: for one node, and for all that were looked at, as few calls as it can be.

Nodes that are to be told the same share a call. The order of the calls does not matter, with one exception: a drain
that a person had put on before the machine left goes before our mark in `Extra`, which would say that it is there.
"""

from msgspec import Struct, field

from sunk.model import names
from sunk.model.contract import drains
from sunk.model.contract.drains import Drain, DrainAction, Undrain
from sunk.slurm.records import Node
from sunk.syncer.drains import extra, requests, verification
from sunk.syncer.drains.causes import Pair, causes, standing
from sunk.syncer.drains.requests import Asked
from sunk.syncer.pods import ComputePod


def deed(pair: Pair, *, skew: float) -> DrainAction | None:
    """What to do about the drain of one node, apart from orders of people."""
    kept = extra.kept_drain(pair)
    if kept is not None:
        return Drain(kept)
    if verification.lifts(pair, skew=skew):
        return _lifted(pair)
    return drains.decide(standing(pair.row), causes(pair))


def _lifted(pair: Pair) -> DrainAction | None:
    """Lift a drain. On a new record it may cover one from before, which then takes its place.

    If it is that one itself, it is lifted once our mark is there: without it, it would be put on again.
    """
    owed = extra.owed_drain(pair)
    if owed is None:
        return verification.lifted(pair)
    return None if owed == pair.row.reason else Drain(owed)


def features(pair: Pair) -> tuple[str, ...] | None:
    """The features it should have; None if it has them. Slurm is asked for them in no order."""
    text = None if pair.pod is None else pair.pod.metadata.annotations.get(names.FEATURES)
    if text is None:
        return None
    wanted = tuple(filter(None, text.split(",")))
    return None if set(wanted) == set(filter(None, pair.row.features)) else wanted


class Groups(Struct):
    """What is to be told to whom: `undrained` and `forgotten`, and the rest by what they are told."""

    drained: dict[str, list[str]] = field(default_factory=dict)
    undrained: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    """In service, with a reason of ours that is left over."""
    rows: dict[str, Node] = field(default_factory=dict)
    """What was decided upon: an order holds for nodes that are still so."""
    featured: dict[tuple[str, ...], list[str]] = field(default_factory=dict)
    asked: dict[str, Asked] = field(default_factory=dict)

    def add(self, name: str, *, pod: ComputePod | None, pair: Pair | None, skew: float) -> None:
        """Look at one node. An order of a person goes first; what is right by itself follows when that is done."""
        order = requests.asked(pod, pair) if pod is not None and requests.pending(pod) else None
        if order is not None:
            self.asked[name] = order
        if pair is not None:
            self._tell(name, pair.row, order.deed if order is not None else deed(pair, skew=skew))
            if (wanted := features(pair)) is not None:
                self.featured.setdefault(wanted, []).append(name)

    def _tell(self, name: str, row: Node, what: DrainAction | None) -> None:
        if what is None:
            return
        self.rows[name] = row
        if isinstance(what, Drain):
            self.drained.setdefault(what.reason, []).append(name)
        elif isinstance(what, Undrain):
            self.undrained.append(name)
        else:
            self.forgotten.append(name)

    def __bool__(self) -> bool:
        return bool(self.rows or self.featured or self.asked)
