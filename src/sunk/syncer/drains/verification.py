"""Drains that a verification may lift: those whose reason has `verify-undrain` anywhere in it.

A health check drains a node so, and does not know when the machine is well again. Who does know says so by the
condition HPCVerification of the Pod. A pass counts if it came after the drain; a condition that stays True keeps the
time of its first pass, so the time of the last probe is looked at where there is one.
"""

from datetime import datetime

from sunk.model import names
from sunk.model.contract.drains import VERIFY, Drain, DrainAction, Undrain, is_ours, text
from sunk.syncer.drains.causes import Pair, causes, standing
from sunk.syncer.pods import ComputePod, condition


def verified(pod: ComputePod | None) -> datetime | None:
    """When the machine was last seen to be well; None if it is not, or nobody looked."""
    found = None if pod is None else condition(pod, names.HPC_VERIFICATION)
    if found is None or found.status != "True":
        return None
    return found.last_probe_time or found.last_heartbeat_time or found.last_transition_time


def lifts(pair: Pair, *, skew: float) -> bool:
    """Whether a drain of somebody else's is lifted by a verification that came after it."""
    row = pair.row
    state = row.state
    if not state.draining or is_ours(row.reason) or VERIFY not in row.reason:
        return False
    # FAIL says that the machine is about to break, which a passed test does not answer; a reboot is still to come.
    if state.failing or state.rebooting:
        return False
    passed = verified(pair.pod)
    return passed is not None and passed.timestamp() > row.reason_time + skew


def lifted(pair: Pair) -> DrainAction | None:
    """What takes the place of such a drain: ours, if a cause holds. A node that is DOWN has to wait."""
    found = standing(pair.row)
    if found.down or not found.registered:
        return None
    ours = text(causes(pair))
    return Undrain() if ours is None else Drain(ours)
