"""What to tell Slurm because of Kubernetes: for one node, and for all nodes of a round in as few calls as possible.

Pure: snapshots come in, `Actions` go out. Nodes that are told the same share a call. The order of the calls does not
matter, with one exception: a drain that a person had put on before the machine left goes before our mark in `Extra`,
which says that the drain is there.

A drain whose reason has `verify-undrain` anywhere in it may be lifted by a verification. A health check that drains a
node does not know when the machine is well again. Whoever does know says so by the condition HPCVerification of the Pod.
A pass counts if it came after the drain; a condition that stays True keeps the time of its first pass, so the time of
the last probe counts where there is one.
"""

from datetime import datetime

from msgspec import Struct, field

from sunk.model import names
from sunk.model.contract import drains
from sunk.model.contract.drains import Drain, DrainAction, Undrain
from sunk.slurm.records import Node
from sunk.syncer.drains import extra, requests
from sunk.syncer.drains.requests import RequestDecision
from sunk.syncer.drains.snapshot import NodeSnapshot, causes, standing
from sunk.syncer.pods import ComputePod, condition


class Actions(Struct):
    """What to tell which nodes, grouped by what they are told."""

    drain: dict[str, list[str]] = field(default_factory=dict)
    """By reason."""
    undrain: list[str] = field(default_factory=list)
    forget_reason: list[str] = field(default_factory=list)
    """In service, with a reason of ours that is left over."""
    rows: dict[str, Node] = field(default_factory=dict)
    """What was decided upon: an order holds for nodes that are still so."""
    features: dict[tuple[str, ...], list[str]] = field(default_factory=dict)
    requests: dict[str, RequestDecision] = field(default_factory=dict)

    def add(self, name: str, *, pod: ComputePod | None, snapshot: NodeSnapshot | None, skew: float) -> None:
        """Decide for one node. A person's request goes first; what is right by itself follows when that is done."""
        request = requests.decide(pod, snapshot) if pod is not None and requests.pending(pod) else None
        if request is not None:
            self.requests[name] = request
        if snapshot is not None:
            action = request.action if request is not None else drain_action(snapshot, skew=skew)
            self._add_action(name, snapshot.row, action)
            if (wanted := wanted_features(snapshot)) is not None:
                self.features.setdefault(wanted, []).append(name)

    def _add_action(self, name: str, row: Node, action: DrainAction | None) -> None:
        if action is None:
            return
        self.rows[name] = row
        if isinstance(action, Drain):
            self.drain.setdefault(action.reason, []).append(name)
        elif isinstance(action, Undrain):
            self.undrain.append(name)
        else:
            self.forget_reason.append(name)

    def __bool__(self) -> bool:
        return bool(self.rows or self.features or self.requests)


def drain_action(snapshot: NodeSnapshot, *, skew: float) -> DrainAction | None:
    """What to do about the drain of one node, apart from requests of people."""
    kept = extra.kept_drain(snapshot)
    if kept is not None:
        return Drain(kept)
    if verification_lifts(snapshot, skew=skew):
        return _lift(snapshot)
    return drains.decide(standing(snapshot.row), causes(snapshot))


def wanted_features(snapshot: NodeSnapshot) -> tuple[str, ...] | None:
    """The features it should have; None if it has them. Slurm is asked for them in no order."""
    text = None if snapshot.pod is None else snapshot.pod.metadata.annotations.get(names.FEATURES)
    if text is None:
        return None
    wanted = tuple(filter(None, text.split(",")))
    return None if set(wanted) == set(filter(None, snapshot.row.features)) else wanted


# Verification


def verified(pod: ComputePod | None) -> datetime | None:
    """When the machine was last seen to be well; None if it is not, or nobody looked."""
    verification = None if pod is None else condition(pod, names.HPC_VERIFICATION)
    if verification is None or verification.status != "True":
        return None
    return verification.last_probe_time or verification.last_heartbeat_time or verification.last_transition_time


def verification_lifts(snapshot: NodeSnapshot, *, skew: float) -> bool:
    """Whether a verification lifts a drain of somebody else's, because it came after it."""
    row = snapshot.row
    state = row.state
    if not state.draining or drains.is_ours(row.reason) or drains.VERIFY not in row.reason:
        return False
    # FAIL says that the machine is about to break, which a passed test does not answer; a reboot is still to come.
    if state.failing or state.rebooting:
        return False
    passed = verified(snapshot.pod)
    return passed is not None and passed.timestamp() > row.reason_time + skew


def _lift(snapshot: NodeSnapshot) -> DrainAction | None:
    """Lift a verified drain. On a new record it may cover one from before, which then takes its place.

    If it is that one itself, it is lifted once our mark is there: without the mark it would be put on again.
    """
    owed = extra.owed_drain(snapshot)
    if owed is not None:
        return None if owed == snapshot.row.reason else Drain(owed)
    node = standing(snapshot.row)
    if node.down or not node.registered:
        return None  # it has to wait: an undrain would revive it
    ours = drains.text(causes(snapshot))
    return Undrain() if ours is None else Drain(ours)
