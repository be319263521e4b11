"""What people ask of Slurm about a node, through `sunk drain` and `sunk undrain`: what is done, and what they hear.

An order is done once; that it was done stands beside it. A drain of a person goes over ours, since theirs has to stay
when ours is lifted; theirs may be lifted by anybody, and ours is then put on if a cause still holds. An undrain names the
drain that its author saw, and lifts no other: one may have been put on before the order is done, however late that is.
"""

from hashlib import sha256
from typing import Final

from msgspec import Struct

from sunk.model import foreign, names
from sunk.model.contract import drains
from sunk.model.contract.drains import Drain, DrainAction, Undrain
from sunk.model.contract.requests import LONGEST, Answer, Order
from sunk.syncer.drains.causes import Pair, causes, standing
from sunk.syncer.pods import ComputePod

LONGEST_ID: Final = 128
_SHOWN: Final = 1024
"""Characters of an answer: a reason that somebody put on in Slurm may be of any length."""
_NAMED: Final = 900
"""Characters of a reason that words stand around, in an answer that is cut."""


class Asked(Struct, frozen=True):
    """What to do about an order, and what to answer once that is done."""

    answer: Answer
    deed: DrainAction | None = None


def pending(pod: ComputePod | None) -> bool:
    """Whether there is an order at all: asked of every Pod at every look, so nothing is read for it."""
    return pod is not None and names.ORDER in pod.metadata.annotations


def asked(pod: ComputePod, pair: Pair | None) -> Asked | None:
    """What the order of a Pod comes to; None if there is none that is not answered yet."""
    text = pod.metadata.annotations.get(names.ORDER)
    if text is None:
        return None
    order = _read(text)
    number = f"unreadable-{sha256(text.encode()).hexdigest()[:12]}" if order is None else order.id
    if _answered(pod) == number:
        return None
    if order is None:
        return _no(number, f"the order cannot be read: {text[:100]}; use `sunk drain` or `sunk undrain`")
    if pair is None:
        return _no(number, "Slurm has no such node, or it is no member of this cluster: see `sunk status`")
    return _drain(order, pair) if order.act == "drain" else _undrain(order, pair)


def _drain(order: Order, pair: Pair) -> Asked:
    reason = drains.plain(order.reason)
    if not reason:
        return _no(order.id, "a drain needs a reason: give one")
    if drains.is_ours(reason):
        return _no(order.id, f"a reason that begins with {drains.PREFIX} would be lifted by us: choose another one")
    state = pair.row.state
    if state.draining and not state.failing and pair.row.reason == reason:
        return _yes(order.id, f"it is drained already: {reason}")
    return Asked(Answer(id=order.id, done=True, words=f"drained: {reason}"), Drain(reason))


def _undrain(order: Order, pair: Pair) -> Asked:
    found = standing(pair.row)
    ours = drains.text(causes(pair))
    if not (found.draining or found.failing):
        return _yes(order.id, "it is not drained")
    if (why := _against(order, found, ours=ours)) is not None:
        return _no(order.id, why)
    if ours is not None:
        words = f'the drain "{found.reason[:_SHOWN]}" is lifted, and the node stays drained: {ours}'
        return Asked(Answer(id=order.id, done=True, words=words), Drain(ours))
    return Asked(Answer(id=order.id, done=True, words=f'the drain "{found.reason[:_SHOWN]}" is lifted'), Undrain())


def _against(order: Order, found: drains.DrainState, *, ours: str | None) -> str | None:
    """Why a node is not undrained."""
    if found.rebooting:
        return "Slurm is to reboot it: wait for that, or end it by `scontrol cancel_reboot`"
    if found.foreign and order.lifts not in {None, found.reason[:LONGEST]}:
        return f'another drain is there now, and stays: "{found.reason[:_NAMED]}". Ask again to lift it.'
    if not found.foreign and ours is not None:
        return f"it comes back for as long as its cause holds: {ours}. End that first."
    if found.down or not found.registered:
        word = "down" if found.down else "not registered"
        return f"Slurm says it is {word}, and an undrain would bring it back to service: mend that first"
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


def _yes(number: str, words: str) -> Asked:
    return Asked(Answer(id=number, done=True, words=words[:_SHOWN]))


def _no(number: str, words: str) -> Asked:
    return Asked(Answer(id=number, done=False, words=words[:_SHOWN]))
