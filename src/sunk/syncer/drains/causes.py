"""What Kubernetes says about one node, laid beside what Slurm says: which causes for a drain hold."""

from msgspec import Struct

from sunk.model import names
from sunk.model.contract import drains
from sunk.model.contract.drains import Causes, DrainState
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase
from sunk.syncer.members import Member
from sunk.syncer.pods import ComputePod, finished, ready, terminating


class Pair(Struct, frozen=True):
    """Both sides of one node. Only members of this cluster that Slurm has a record of are looked at so."""

    member: Member
    pod: ComputePod | None
    row: Node
    unready_long: bool = False
    """If its Pod is not ready, whether that is long enough to count."""

    @property
    def name(self) -> str:
        return self.row.name


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


def causes(pair: Pair) -> Causes:
    """Those that hold now."""
    pod, awake = pair.pod, _awake(pair)
    marked = pod is not None and names.PENDING_DELETION in pod.metadata.annotations
    lives = pod is not None and not (terminating(pod) or finished(pod))
    return Causes(
        terminated=awake and not lives,
        pending_deletion=marked or pair.member.leaving,
        not_ready=awake and lives and _not_ready(pair),
        cordon=_cordon(pair),
    )


def _awake(pair: Pair) -> bool:
    """Who sleeps to save power has no Pod, and a drain would keep it from ever being woken for work."""
    return pair.member.entry.state != "parked" and not pair.row.state.in_power_saving


def _not_ready(pair: Pair) -> bool:
    if pair.pod is None or ready(pair.pod):
        return False
    return pair.unready_long or _told_so(pair.row)


def _told_so(row: Node) -> bool:
    """Whether Slurm was told before that nothing is ready there: a drain that would come back is not lifted first."""
    told = drains.read(row.reason) if row.state.draining else None
    return told is not None and (told.terminated or told.not_ready)


def _cordon(pair: Pair) -> str | None:
    if pair.pod is not None:
        return pair.pod.metadata.annotations.get(names.CORDON)
    # Its annotation went with the Pod, but what Slurm was told still stands there, and the next Pod will know better.
    # Who sleeps has no next Pod before it is woken, and would stay drained for ever.
    told = drains.read(pair.row.reason) if pair.row.state.draining and _awake(pair) else None
    return told.cordon if told is not None else None
