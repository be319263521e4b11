"""Tell Slurm what was decided, a call for each thing to tell, and answer the people who had asked for it.

An order about a drain holds for nodes that are as they were when it was decided; the others are given back, to be looked
at again. If somebody else drained a node in the very moment of an order, and the order has overwritten or lifted that,
it is put on again with its text, and an event says so. If Slurm falls silent before that, it is done when Slurm answers;
only what slurmctld itself refuses is given up.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Set as AbstractSet
from functools import partial
from typing import Final, Literal

from msgspec import Struct, json

from sunk.kube.api.patch import Merge
from sunk.kube.control.events import about
from sunk.kube.errors import KubeError
from sunk.model import hostlist, names
from sunk.model.contract.requests import Answer
from sunk.slurm.errors import SlurmError, Unreachable
from sunk.slurm.mirror.confidence import Stale
from sunk.slurm.orders.guarded import Covered
from sunk.slurm.orders.nodes import Outcome
from sunk.slurm.records import Node
from sunk.syncer.context import Ground
from sunk.syncer.drains.plan import Groups

log = logging.getLogger(__name__)

_HANDS: Final = 16
"""Answers written at the same time, at most."""


class Counts(Struct):
    """What was done since the start: rounds, calls in them, and nodes that Slurm was told of."""

    rounds: int = 0
    calls: int = 0
    drained: int = 0
    undrained: int = 0
    forgotten: int = 0
    featured: int = 0
    restored: int = 0
    """Drains of others that an order had overwritten or lifted, and that were put on again."""
    answered: int = 0
    failed: int = 0


class Call(Struct, frozen=True):
    """One order for some nodes."""

    kind: Literal["drained", "undrained", "forgotten", "featured"]
    nodes: list[str]
    send: Callable[[], Awaitable[Outcome]]
    words: str
    features: tuple[str, ...] = ()


class Result(Struct, frozen=True):
    """What did not come to pass, by node; and which nodes were others by then than what was decided upon."""

    failed: dict[str, Exception]
    changed: frozenset[str]


class Settled(Struct, frozen=True):
    """Of which nodes it is not known yet what an order has taken from others, and what could not be put back."""

    unknown: frozenset[str]
    failed: Mapping[str, Exception]


class Teller:
    def __init__(self, ground: Ground, *, want_reconfigure: Callable[[frozenset[str]], None]) -> None:
        self._ground = ground
        self._want_reconfigure = want_reconfigure
        self._hands = asyncio.Semaphore(_HANDS)
        self._owed: dict[str, Covered] = {}
        """Drains of others that wait to be put back until Slurm answers."""
        self.counts: Final = Counts()

    async def settle(self) -> Settled:
        """Put back what orders have taken from others while Slurm fell silent. Raises Unreachable if it still is."""
        orders = self._ground.orders
        failed: Mapping[str, Exception] = {}
        if (orders.unfinished or self._owed) and self._ground.may_write():
            owed = self._owed | await orders.judge_unfinished()
            outcome = await self._put_back(owed, by="order without an answer")
            if isinstance(outcome.trouble, Unreachable):
                raise outcome.trouble
            failed = outcome.troubles
        return Settled(unknown=orders.unfinished, failed=failed)

    async def tell(self, groups: Groups) -> Result:
        """Tell all, and give the nodes of which that did not succeed. What is refused to some keeps no other from his.

        Raises Unreachable or Stale where nobody answers: all others would fare alike, one after another.
        """
        self.counts.rounds += 1
        failed: dict[str, Exception] = {}
        done: set[str] = set()
        changed: set[str] = set()
        for call in self._calls(groups):
            try:
                outcome = await self._send(call)
            except Unreachable:
                raise
            except (SlurmError, ValueError) as trouble:
                failed |= dict.fromkeys(call.nodes, trouble)
            else:
                done.update(outcome.done if call.kind != "featured" else ())
                changed.update(outcome.changed)
        await self._ground.mirror.read_after()
        failed |= await self._answer(groups, done, but=failed.keys() | changed)
        self.counts.failed += len(failed)
        return Result(failed=failed, changed=frozenset(changed))

    def _calls(self, groups: Groups) -> Iterator[Call]:
        orders, seen = self._ground.orders, groups.rows
        for reason, nodes in groups.drained.items():
            send = partial(orders.drain, nodes, reason=reason, seen=seen)
            yield Call("drained", nodes, send, f"drain: {reason}")
        if nodes := groups.undrained:
            yield Call("undrained", nodes, partial(orders.undrain, nodes, seen=seen), "undrain")
        if nodes := groups.forgotten:
            yield Call("forgotten", nodes, partial(orders.forget_reason, nodes, seen=seen), "forget the reason")
        for features, nodes in groups.featured.items():
            words = f"features: {','.join(features) or 'none'}"
            yield Call("featured", nodes, partial(orders.set_features, nodes, features=features), words, features)

    async def _send(self, call: Call) -> Outcome:
        if not self._ground.may_write():
            raise Stale("we may have lost the lead, so Slurm is not told anything")
        self.counts.calls += 1
        changed = self._changed(call)
        outcome = await call.send()
        setattr(self.counts, call.kind, getattr(self.counts, call.kind) + len(outcome.done))
        log.info("%s: %s%s", call.words, hostlist.shown(outcome.done) or "nobody", _left_out(outcome))
        if call.kind == "featured" and outcome.done:
            self._want_reconfigure(changed)  # partitions that are made of features follow only then
        put_back = await self._put_back(outcome.covered, by=call.words)
        if (trouble := put_back.trouble or outcome.trouble) is not None:
            raise trouble
        return outcome

    async def _put_back(self, covered: Mapping[str, Covered], *, by: str) -> Outcome:
        """Put on again what somebody else had said in the very moment of an order."""
        self._owed |= covered
        outcome = await self._ground.orders.put_back(covered)
        for name in covered.keys() - _to_repeat(outcome):
            self._owed.pop(name, None)
        self.counts.restored += len(outcome.done)
        for name in outcome.done:
            self._say_put_back(name, covered[name].row, by=by)
        return outcome

    def _say_put_back(self, name: str, lost: Node, *, by: str) -> None:
        word = "FAIL" if lost.state.failing else "drained"
        log.warning('%s: %s by uid %s, lost to our "%s": put back: %s', name, word, lost.reason_uid, by, lost.reason)
        if (pod := self._ground.pod(name)) is not None:
            note = 'somebody (uid {uid}) set {name} to {word}, "{text}", at the moment of an order of ours: put back'
            said = {"uid": lost.reason_uid, "name": name, "word": word, "text": lost.reason}
            self._ground.recorder.warn(about(pod, kind="Pod"), "DrainPutBack", note, action="Drain", **said)

    def _changed(self, call: Call) -> frozenset[str]:
        """The features that some of these nodes get or lose."""
        rows = (self._ground.mirror.nodes.get(name) for name in call.nodes)
        return frozenset(one for row in rows if row is not None for one in {*row.features} ^ {*call.features})

    # People

    async def _answer(self, groups: Groups, done: AbstractSet[str], *, but: Container[str]) -> dict[str, Exception]:
        """Answer those whose orders are carried out, and give the others: they are decided anew."""
        due = {name: asked.answer for name, asked in groups.asked.items() if asked.deed is None or name in done}
        failed: dict[str, Exception] = {
            name: Stale("Slurm did not do what a person has asked for: it is looked at again")
            for name in groups.asked
            if name not in due and name not in but
        }
        wrong = await asyncio.gather(*(self._write(name, answer) for name, answer in due.items()))
        return failed | {name: trouble for name, trouble in zip(due, wrong, strict=True) if trouble is not None}

    async def _write(self, name: str, answer: Answer) -> KubeError | None:
        pod = self._ground.pod(name)
        if pod is None:
            return None  # and nobody waits there any more
        annotations = {names.ORDER_DONE: json.encode(answer).decode()}
        patch = Merge({"metadata": {"uid": pod.metadata.uid, "annotations": annotations}})
        try:
            async with self._hands:
                await self._ground.pods.patch(pod.key, patch, status=True)
        except KubeError as trouble:
            return trouble
        self.counts.answered += 1
        return None


def _to_repeat(outcome: Outcome) -> set[str]:
    """Nodes that the order did not reach, as far as is known. What slurmctld refuses it would refuse again."""
    return {name for name, one in outcome.troubles.items() if not (isinstance(one, SlurmError) and one.final)}


def _left_out(outcome: Outcome) -> str:
    unknown = f"; unknown: {hostlist.shown(outcome.unknown)}" if outcome.unknown else ""
    refused = f"; left as they are: {hostlist.shown(outcome.refused)}" if outcome.refused else ""
    changed = f"; changed meanwhile: {hostlist.shown(outcome.changed)}" if outcome.changed else ""
    return unknown + refused + changed
