"""Both sides of one node as they are now, and which causes for a drain hold on that snapshot.

`Snapshots` reads the stores and the mirror; `standing` and `causes` are pure.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from sunk.model import loopclock, names
from sunk.model.contract import drains
from sunk.model.contract.drains import Causes, DrainState
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase
from sunk.syncer.context import Context
from sunk.syncer.drains.waves import WaveDetector
from sunk.syncer.hooks.hello import is_unreached
from sunk.syncer.members import Member, Members
from sunk.syncer.pods import ComputePod, finished, ready, terminating


class NodeSnapshot(Struct, frozen=True):
    """Both sides of one node: a member of this cluster that Slurm has a record of."""

    member: Member
    pod: ComputePod | None
    row: Node
    unready_long: bool = False
    """If its Pod is not ready, whether that is long enough to count."""
    reached: bool = False
    """Its Pod is calling the syncer at this moment."""

    @property
    def name(self) -> str:
        return self.row.name


class Snapshots:
    """Made together with the collections, so that a new leader knows since when Pods are not ready."""

    def __init__(self, context: Context, members: Members, *, is_reached: Callable[[str], bool]) -> None:
        self.waves: Final = WaveDetector(context.pods.store, settings=context.settings)
        self._context = context
        self._members = members
        self._is_reached = is_reached

    def of(self, name: str) -> NodeSnapshot | None:
        """None where there is nothing to tell Slurm: it has no such node, or the node is none of ours."""
        member, row = self._members.get(name), self._context.mirror.nodes.get(name)
        if member is None or row is None:
            return None
        unready_long = self.waves.due(name) <= loopclock.now()
        return NodeSnapshot(
            member=member,
            pod=self._context.pod(name),
            row=row,
            unready_long=unready_long,
            reached=self._is_reached(name),
        )

    def resync_after(self, snapshot: NodeSnapshot) -> float | None:
        """In how many seconds to decide again though nothing happens; None if never."""
        if snapshot.unready_long or snapshot.pod is None or ready(snapshot.pod):
            return None
        return max(self.waves.due(snapshot.name) - loopclock.now(), 0.0)


def standing(row: Node) -> DrainState:
    state = row.state
    return DrainState(
        draining=state.draining,
        reason=row.reason,
        down=state.base is NodeBase.DOWN,
        registered=state.registered,
        failing=state.failing,
        rebooting=state.rebooting,
    )


def causes(snapshot: NodeSnapshot) -> Causes:
    """Those that hold now."""
    pod, awake = snapshot.pod, _awake(snapshot)
    marked = pod is not None and names.PENDING_DELETION in pod.metadata.annotations
    lives = pod is not None and not (terminating(pod) or finished(pod))
    return Causes(
        terminated=awake and not lives,
        pending_deletion=marked or snapshot.member.leaving,
        not_ready=awake and lives and _not_ready(snapshot),
        unreached=not snapshot.reached and is_unreached(snapshot.row),
        cordon=_cordon(snapshot),
    )


def _awake(snapshot: NodeSnapshot) -> bool:
    """A node that sleeps to save power has no Pod, and a drain would keep it from ever being woken for work."""
    return snapshot.member.entry.state != "parked" and not snapshot.row.state.in_power_saving


def _not_ready(snapshot: NodeSnapshot) -> bool:
    if snapshot.pod is None or ready(snapshot.pod):
        return False
    return snapshot.unready_long or _drained_as_unready(snapshot.row)


def _drained_as_unready(row: Node) -> bool:
    """Whether Slurm was told before that nothing is ready there: a drain that would come back is not lifted first."""
    carried = drains.read(row.reason) if row.state.draining else None
    return carried is not None and (carried.terminated or carried.not_ready)


def _cordon(snapshot: NodeSnapshot) -> str | None:
    if snapshot.pod is not None:
        return snapshot.pod.metadata.annotations.get(names.CORDON)
    # The annotation went with the Pod, but what Slurm was told still stands there, and the next Pod will know better.
    # A node that sleeps has no next Pod before it is woken, and would stay drained for ever.
    row = snapshot.row
    carried = drains.read(row.reason) if row.state.draining and _awake(snapshot) else None
    return carried.cordon if carried is not None else None
