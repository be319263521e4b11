"""What people ask of Slurm about a node, by `sunk drain` and `sunk undrain`: what to do, and what to answer.

Pure. A request is carried out once; its answer stands beside it on the Pod. A person's drain goes over ours, since theirs
has to stay when ours is lifted; anybody may lift theirs, and ours is then put on if a cause still holds. An undrain names
the drain that its author saw, and lifts no other: another may have been put on before the request is carried out, however
late that is.
"""

from hashlib import sha256
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from sunk.model import foreign, names
from sunk.model.contract import drains
from sunk.model.contract.drains import Drain, DrainAction, Undrain
from sunk.model.contract.requests import LONGEST, Answer, Order
from sunk.syncer.drains.snapshot import NodeSnapshot, causes, standing
from sunk.syncer.pods import ComputePod

LONGEST_ID: Final = 128
_SHOWN: Final = 1024
"""Characters of an answer: a reason that somebody put on in Slurm may be of any length."""
_NAMED: Final = 900
"""Characters of a reason that words stand around, in an answer that is cut."""


class RequestDecision(Struct, frozen=True):
    """What to do about a request, and what to answer once that is done."""

    answer: Answer
    action: DrainAction | None = None


def pending(pod: ComputePod | None) -> bool:
    """Whether there is a request at all: asked of every Pod in every round, so nothing is decoded for it."""
    return pod is not None and names.ORDER in pod.metadata.annotations


def decide(pod: ComputePod, snapshot: NodeSnapshot | None) -> RequestDecision | None:
    """What the request on a Pod comes to; None if there is none that is not answered yet."""
    text = pod.metadata.annotations.get(names.ORDER)
    if text is None:
        return None
    order = _read(text)
    number = f"unreadable-{sha256(text.encode()).hexdigest()[:12]}" if order is None else order.id
    if _answered(pod) == number:
        return None
    if order is None:
        return _refused(number, f"the request is not readable: {text[:100]}; use `sunk drain` or `sunk undrain`")
    if snapshot is None:
        return _refused(number, "Slurm has no such node, or it is not a member of this cluster: see `sunk status`")
    return _drain(order, snapshot) if order.act == "drain" else _undrain(order, snapshot)


def _drain(order: Order, snapshot: NodeSnapshot) -> RequestDecision:
    reason = drains.plain(order.reason)
    if not reason:
        return _refused(order.id, "a drain needs a reason")
    if drains.is_ours(reason):
        return _refused(order.id, f"SUNK lifts drains whose reason begins with {drains.PREFIX}: choose another reason")
    state = snapshot.row.state
    if state.draining and not state.failing and snapshot.row.reason == reason:
        return _done(order.id, f"already drained: {reason}")
    return RequestDecision(Answer(id=order.id, done=True, words=f"drained: {reason}"), Drain(reason))


def _undrain(order: Order, snapshot: NodeSnapshot) -> RequestDecision:
    node = standing(snapshot.row)
    # That no syncer was reached is known from the drain alone, so that one does not come back.
    ours = drains.text(replace(causes(snapshot), unreached=False))
    if not (node.draining or node.failing):
        return _done(order.id, "not drained")
    if (why := _against(order, node, ours=ours)) is not None:
        return _refused(order.id, why)
    if ours is not None:
        words = f'the drain "{node.reason[:_SHOWN]}" was lifted, but the node stays drained: {ours}'
        return RequestDecision(Answer(id=order.id, done=True, words=words), Drain(ours))
    return RequestDecision(
        Answer(id=order.id, done=True, words=f'the drain "{node.reason[:_SHOWN]}" was lifted'), Undrain()
    )


def _against(order: Order, node: drains.DrainState, *, ours: str | None) -> str | None:
    """Why a node is not undrained."""
    if node.rebooting:
        return "Slurm is about to reboot it: wait for that, or run `scontrol cancel_reboot`"
    if node.foreign and order.lifts not in {None, node.reason[:LONGEST]}:
        return f'it now has another drain, which stays: "{node.reason[:_NAMED]}". Repeat the command to lift that one.'
    if not node.foreign and ours is not None:
        return f"the drain would come back while its cause holds: {ours}. Resolve that first."
    if node.down or not node.registered:
        word = "down" if node.down else "not registered"
        return f"the node is {word} in Slurm, and an undrain would return it to service: fix that first"
    return None


def _read(text: str) -> Order | None:
    """None if nobody could answer it: its number stands in the answer, and a Pod has little room."""
    try:
        order = foreign.decode(text, Order)
    except foreign.UnreadableJson:
        return None
    return order if len(order.id) <= LONGEST_ID else None


def _answered(pod: ComputePod) -> str:
    try:
        return foreign.decode(pod.metadata.annotations.get(names.ORDER_DONE, ""), Answer).id
    except foreign.UnreadableJson:
        return ""


def _done(number: str, words: str) -> RequestDecision:
    return RequestDecision(Answer(id=number, done=True, words=words[:_SHOWN]))


def _refused(number: str, words: str) -> RequestDecision:
    return RequestDecision(Answer(id=number, done=False, words=words[:_SHOWN]))
