"""Carry out a plan: one call to Slurm for each different thing to tell, then the answers to the people who asked for it.

An order about a drain holds for nodes that are as they were when it was decided; the others are given back, to be decided
again. If somebody else drained a node in the very moment of an order, and the order has overwritten or lifted that, their
drain is put back with its text, and an event says so. If Slurm falls silent before that, it is put back when Slurm
answers; only what slurmctld itself refuses is given up.

A drain that never comes about is seen by nobody who looks at Kubernetes. So `RefusedOrders` keeps what Slurm refuses or
leaves unanswered though it can be read, and the report names it once it has lasted. While Slurm cannot be read at all,
the report says that instead (`sunk.syncer.visibility.reachability`).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping, Set as AbstractSet
from functools import partial
from typing import Final, Literal

from msgspec import Struct, json

from sunk.kube.api.patch import Merge
from sunk.kube.control.events import about
from sunk.kube.errors import KubeError
from sunk.model import hostlist, names
from sunk.model.contract.requests import Answer
from sunk.slurm.errors import SlurmError, Unreachable
from sunk.slurm.mirror.confidence import Stale, named
from sunk.slurm.orders.guarded import Covered
from sunk.slurm.orders.nodes import Outcome
from sunk.slurm.records import Node
from sunk.syncer.context import Context
from sunk.syncer.drains.plan import Actions

log = logging.getLogger(__name__)

LASTS: Final = 10.0
"""Seconds for which an order may fail before the report says so."""
_CONCURRENCY: Final = 16
"""Answers written at the same time, at most."""


class OrderCounts(Struct):
    """What was done since the start: rounds, calls in them, and nodes that Slurm was told of."""

    rounds: int = 0
    calls: int = 0
    drained: int = 0
    undrained: int = 0
    forgotten: int = 0
    featured: int = 0
    restored: int = 0
    """Drains of others that an order had overwritten or lifted, and that were put back."""
    answered: int = 0
    failed: int = 0


class OrderCall(Struct, frozen=True):
    """One order for some nodes. `kind` is the field of `OrderCounts` that counts them."""

    kind: Literal["drained", "undrained", "forgotten", "featured"]
    nodes: list[str]
    send: Callable[[], Awaitable[Outcome]]
    words: str
    features: tuple[str, ...] = ()


class ExecutionResult(Struct, frozen=True):
    """What failed, by node; and which nodes had changed since they were decided upon."""

    failed: dict[str, Exception]
    changed: frozenset[str]


class SettleResult(Struct, frozen=True):
    """Of which nodes it is not known yet what an order has taken from others, and what could not be put back."""

    unknown: frozenset[str]
    failed: Mapping[str, Exception]


class OrderExecutor:
    def __init__(self, context: Context, *, want_reconfigure: Callable[[frozenset[str]], None]) -> None:
        self._context = context
        self._want_reconfigure = want_reconfigure
        self._writes = asyncio.Semaphore(_CONCURRENCY)
        self._owed: dict[str, Covered] = {}
        """Drains of others that wait to be put back until Slurm answers."""
        self.counts: Final = OrderCounts()

    async def settle(self) -> SettleResult:
        """Put back what orders have taken from others while Slurm fell silent. Raises Unreachable if it still is."""
        orders = self._context.orders
        failed: Mapping[str, Exception] = {}
        if (orders.unfinished or self._owed) and self._context.may_write():
            owed = self._owed | await orders.judge_unfinished()
            outcome = await self._put_back(owed, by="update without an answer")
            if isinstance(outcome.trouble, Unreachable):
                raise outcome.trouble
            failed = outcome.troubles
        return SettleResult(unknown=orders.unfinished, failed=failed)

    async def execute(self, actions: Actions) -> ExecutionResult:
        """Send every order. One that Slurm refuses for some nodes keeps no other node from its own.

        Raises Unreachable or Stale where nobody answers: all others would fare alike, one after another.
        """
        self.counts.rounds += 1
        failed: dict[str, Exception] = {}
        done: set[str] = set()
        changed: set[str] = set()
        for call in self._calls(actions):
            try:
                outcome = await self._send(call)
            except Unreachable:
                raise
            except (SlurmError, ValueError) as trouble:
                failed |= dict.fromkeys(call.nodes, trouble)
            else:
                done.update(outcome.done if call.kind != "featured" else ())
                changed.update(outcome.changed)
        await self._context.mirror.read_after()
        failed |= await self._answer(actions, done, but=failed.keys() | changed)
        self.counts.failed += len(failed)
        return ExecutionResult(failed=failed, changed=frozenset(changed))

    def _calls(self, actions: Actions) -> Iterator[OrderCall]:
        orders, seen = self._context.orders, actions.rows
        for reason, nodes in actions.drain.items():
            send = partial(orders.drain, nodes, reason=reason, seen=seen)
            yield OrderCall("drained", nodes, send, f"drain: {reason}")
        if nodes := actions.undrain:
            yield OrderCall("undrained", nodes, partial(orders.undrain, nodes, seen=seen), "undrain")
        if nodes := actions.forget_reason:
            yield OrderCall("forgotten", nodes, partial(orders.forget_reason, nodes, seen=seen), "forget the reason")
        for features, nodes in actions.features.items():
            words = f"features: {','.join(features) or 'none'}"
            yield OrderCall("featured", nodes, partial(orders.set_features, nodes, features=features), words, features)

    async def _send(self, call: OrderCall) -> Outcome:
        if not self._context.may_write():
            raise Stale("leadership may be lost: not sending updates to Slurm")
        self.counts.calls += 1
        changed = self._changed_features(call)
        outcome = await call.send()
        setattr(self.counts, call.kind, getattr(self.counts, call.kind) + len(outcome.done))
        log.info("%s: %s%s", call.words, hostlist.shown(outcome.done) or "no node", _left_out(outcome))
        if call.kind == "featured" and outcome.done:
            self._want_reconfigure(changed)  # partitions that are made of features follow only then
        put_back = await self._put_back(outcome.covered, by=call.words)
        if (trouble := put_back.trouble or outcome.trouble) is not None:
            raise trouble
        return outcome

    def _changed_features(self, call: OrderCall) -> frozenset[str]:
        """The features that some of these nodes get or lose."""
        rows = (self._context.mirror.nodes.get(name) for name in call.nodes)
        return frozenset(feature for row in rows if row is not None for feature in {*row.features} ^ {*call.features})

    # Drains of others

    async def _put_back(self, covered: Mapping[str, Covered], *, by: str) -> Outcome:
        """Put back the drains that somebody else set in the very moment of an order."""
        self._owed |= covered
        outcome = await self._context.orders.put_back(covered)
        for name in covered.keys() - _to_repeat(outcome):
            self._owed.pop(name, None)
        self.counts.restored += len(outcome.done)
        for name in outcome.done:
            self._record_put_back(name, covered[name].row, by=by)
        return outcome

    def _record_put_back(self, name: str, lost: Node, *, by: str) -> None:
        word = "FAIL" if lost.state.failing else "the drain"
        log.warning(
            '%s: restored %s "%s" (set by uid %s), which the update "%s" had removed',
            name,
            word,
            lost.reason,
            lost.reason_uid,
            by,
        )
        if (pod := self._context.pod(name)) is not None:
            note = (
                'restored {word} "{text}" (set by uid {uid}) on {name}: '
                "a SUNK update sent at the same moment had removed it"
            )
            values = {"uid": lost.reason_uid, "name": name, "word": word, "text": lost.reason}
            self._context.recorder.warn(about(pod, kind="Pod"), "DrainPutBack", note, action="Drain", **values)

    # Answers to people

    async def _answer(self, actions: Actions, done: AbstractSet[str], *, but: Container[str]) -> dict[str, Exception]:
        """Answer the requests that are carried out, and return the others: they are decided again."""
        decisions = actions.requests
        due = {name: request.answer for name, request in decisions.items() if request.action is None or name in done}
        failed: dict[str, Exception] = {
            name: Stale("Slurm did not carry out a request: retrying")
            for name in decisions
            if name not in due and name not in but
        }
        errors = await asyncio.gather(*(self._write_answer(name, answer) for name, answer in due.items()))
        return failed | {name: error for name, error in zip(due, errors, strict=True) if error is not None}

    async def _write_answer(self, name: str, answer: Answer) -> KubeError | None:
        pod = self._context.pod(name)
        if pod is None:
            return None  # and nobody waits there any more
        annotations = {names.ORDER_DONE: json.encode(answer).decode()}
        patch = Merge({"metadata": {"uid": pod.metadata.uid, "annotations": annotations}})
        try:
            async with self._writes:
                await self._context.pods.patch(pod.key, patch, status=True)
        except KubeError as trouble:
            return trouble
        self.counts.answered += 1
        return None


def _to_repeat(outcome: Outcome) -> set[str]:
    """Nodes that the order did not reach, as far as is known. What slurmctld refuses it would refuse again."""
    final = {name for name, trouble in outcome.troubles.items() if isinstance(trouble, SlurmError) and trouble.final}
    return outcome.troubles.keys() - final


def _left_out(outcome: Outcome) -> str:
    unknown = f"; unknown: {hostlist.shown(outcome.unknown)}" if outcome.unknown else ""
    refused = f"; unchanged: {hostlist.shown(outcome.refused)}" if outcome.refused else ""
    changed = f"; changed in the meantime: {hostlist.shown(outcome.changed)}" if outcome.changed else ""
    return unknown + refused + changed


class RefusedOrders:
    """Which nodes Slurm could not be told something about, since when, and what it said the first time."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[float, str]] = {}

    def note(self, tried: Iterable[str], failed: Mapping[str, Exception], *, now: float) -> None:
        for name in tried:
            if name not in failed:
                self._since.pop(name, None)
        for name, trouble in failed.items():
            if not isinstance(trouble, Stale):  # nothing was ordered
                self._since.setdefault(name, (now, str(trouble)))

    def lasting(self, *, now: float) -> tuple[str, ...]:
        """A sentence for each kind of trouble that has lasted."""
        by_trouble: dict[str, list[str]] = {}
        for name, (since, trouble) in self._since.items():
            if now - since >= LASTS:
                by_trouble.setdefault(trouble, []).append(name)
        return tuple(
            f"updates to {named(nodes)} keep failing: {trouble}" for trouble, nodes in sorted(by_trouble.items())
        )
