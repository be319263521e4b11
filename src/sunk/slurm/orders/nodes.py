"""What we tell Slurm. Every order can be repeated: done twice, it is as if done once.

One call carries an order to thousands of nodes by a hostlist, but one unknown name in it makes Slurm stop in the
middle, and the answer does not say where. So after such an answer the nodes are read afresh, the unknown ones are left
out and the rest is told again; the outcome names both.

There is no "resume". It would revive a node that is DOWN, and so would an undrain (with ReturnToService=2); therefore
`undrain` looks first, and leaves out nodes that are down, never registered, or not drained at all.

Orders about drains may be given for nodes as they were seen (`seen`). Then what somebody else has done since is neither
overwritten nor lifted, as far as Slurm lets one be sure of that; see `guarded`.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from sunk.model import hostlist
from sunk.model.contract import drains
from sunk.slurm.errors import Denied, SlurmError, Unauthenticated, UnknownName, Unreachable
from sunk.slurm.libslurm.library import Library
from sunk.slurm.libslurm.wire import NodeChange, Watched
from sunk.slurm.mirror.mirror import Mirror
from sunk.slurm.orders import bounds, extra as extras, guarded
from sunk.slurm.orders.guarded import Attempt, Covered
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase, NodeFlag, NodeState

T = TypeVar("T")

ATTEMPTS: Final = 4
MOST_UNFINISHED: Final = 16_384
"""Orders without an answer that are remembered; of more than these the oldest are forgotten."""


class Outcome(Struct, frozen=True):
    """What became of an order for many nodes."""

    done: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """Slurm has no such node."""
    refused: tuple[str, ...] = ()
    """Left as they were: busy, or in a state from which the order would do harm, or with an extra that is full."""
    why: Mapping[str, str] = {}
    """What Slurm said to some of the refused, by name."""
    changed: tuple[str, ...] = ()
    """Not told: they are no longer as they were seen."""
    covered: Mapping[str, Covered] = {}
    """What somebody else had put on at the same moment, and the order has overwritten or lifted."""
    troubles: Mapping[str, Exception] = {}
    """What kept the order from some nodes, by name."""

    @property
    def trouble(self) -> Exception | None:
        """One of these, to be raised once what the order has covered is put back. That nobody answers comes first."""
        return min(self.troubles.values(), key=lambda one: not isinstance(one, Unreachable), default=None)


MustStay = Callable[[Collection[str]], Mapping[str, str]]
"""Which of these nodes must not be deleted after all, and why. It raises if none of them may be."""


def _none_must(_: Collection[str]) -> Mapping[str, str]:
    return {}


class Orders:
    """Orders about nodes and about Slurm itself; those about jobs are in `jobs`."""

    def __init__(self, library: Library, *, mirror: Mirror | None = None) -> None:
        """With a mirror, it hears before nodes are deleted that their absence will be nothing to wonder about."""
        self._library = library
        self._mirror = mirror
        self._unfinished: deque[Attempt] = deque(maxlen=MOST_UNFINISHED)

    async def drain(self, names: Collection[str], *, reason: str, seen: Mapping[str, Node] | None = None) -> Outcome:
        """Take nodes out of service once their jobs are done. Without a reason Slurm would leave an old one standing."""
        if not reason:
            raise ValueError(f"a drain of {', '.join(sorted(names)[:5])} needs a reason")
        change = NodeChange(names="", state=NodeFlag.DRAIN.value, reason=reason)
        return await (self._update(names, change) if seen is None else self._guarded(names, change, seen=seen))

    async def undrain(self, names: Collection[str], *, seen: Mapping[str, Node] | None = None) -> Outcome:
        """Take back a drain or FAIL, and only that."""
        states = await self._states() if seen is None else {name: row.state for name, row in seen.items()}
        ready = [name for name in names if name in states and can_undrain(states[name])]
        change = NodeChange(names="", state=NodeFlag.UNDRAIN.value)
        found = await (self._update(ready, change) if seen is None else self._guarded(ready, change, seen=seen))
        missing = [name for name in names if name not in states]
        refused = set(names) - set(ready) - set(missing)
        return replace(found, unknown=_sorted(missing, found.unknown), refused=_sorted(refused))

    async def forget_reason(self, names: Collection[str], *, seen: Mapping[str, Node]) -> Outcome:
        """Replace a reason that is left on nodes in service by Slurm's own for none in particular. A blank is ignored."""
        return await self._guarded(names, NodeChange(names="", reason=drains.NOT_RESPONDING), seen=seen)

    async def put_back(self, covered: Mapping[str, Covered]) -> Outcome:
        """Put on again what an order of ours has overwritten, unless somebody has said something else since."""
        outcomes = [await self._put_back(name, lost) for name, lost in covered.items()]
        done, changed, unknown = (
            [getattr(outcome, kind) for outcome in outcomes] for kind in ("done", "changed", "unknown")
        )
        troubles = {name: trouble for outcome in outcomes for name, trouble in outcome.troubles.items()}
        return Outcome(done=_sorted(*done), changed=_sorted(*changed), unknown=_sorted(*unknown), troubles=troubles)

    async def _put_back(self, name: str, lost: Covered) -> Outcome:
        flag = NodeFlag.FAIL if lost.row.state.failing else NodeFlag.DRAIN
        change = NodeChange(names="", state=flag.value, reason=bounds.shortened(lost.row.reason))
        try:
            return await self._guarded([name], change, seen={name: lost.now})
        except SlurmError as trouble:  # keeps no other from theirs
            return Outcome(troubles={name: trouble})

    @property
    def unfinished(self) -> frozenset[str]:
        """Nodes of which it is not known what an order has taken from somebody else."""
        return frozenset(attempt.row.name for attempt in self._unfinished)

    async def judge_unfinished(self) -> dict[str, Covered]:
        """What has to be put back of orders that Slurm did not answer. Each is judged once, upon a read of now."""
        # One that ends during the read may come about after slurmctld has answered it.
        ended = [attempt for attempt in self._unfinished if attempt.ended]
        rows = await self._rows()
        owed: dict[str, Covered] = {}
        for attempt in ended:
            now = rows.get(attempt.row.name)
            if now is not None and (lost := guarded.judged(attempt, now)) is not None:
                owed[attempt.row.name] = lost
        judged = {id(attempt) for attempt in ended}
        self._unfinished = deque(
            (attempt for attempt in self._unfinished if id(attempt) not in judged), maxlen=MOST_UNFINISHED
        )
        return owed

    async def set_reason(self, names: Collection[str], *, reason: str) -> Outcome:
        """Change the reason, and its time, but no state. On a node that is not drained 26.05 does not keep it."""
        return await self._update(names, NodeChange(names="", reason=reason))

    async def set_down(self, names: Collection[str], *, reason: str) -> Outcome:
        """Take nodes out of service at once: their jobs end as NODE_FAIL or are requeued."""
        return await self._update(names, NodeChange(names="", state=NodeBase.DOWN.value, reason=reason))

    async def power_up(self, names: Collection[str]) -> Outcome:
        return await self._update(names, NodeChange(names="", state=NodeFlag.POWER_UP.value))

    async def power_down(self, names: Collection[str]) -> Outcome:
        """Power nodes down once they are idle."""
        return await self._update(names, NodeChange(names="", state=NodeFlag.POWER_DOWN.value))

    async def set_features(self, names: Collection[str], *, features: Sequence[str]) -> Outcome:
        """Replace the features, available and active alike. Partitions by NodeSet follow at the next reconfigure."""
        return await self._update(names, NodeChange(names="", features=",".join(features)))

    async def set_comment(self, names: Collection[str], *, comment: str) -> Outcome:
        return await self._update(names, NodeChange(names="", comment=comment))

    async def merge_extra(self, ours: Mapping[str, Mapping[str, Any]]) -> Outcome:
        """Lay keys over each node's extra, by node name. Nodes that end up with the same text share a call."""
        table = await self._library.all_nodes()
        texts = {node.name: node.extra for node in table.rows}
        groups: dict[str, list[str]] = {}
        # A text that is longer than we send was cut when it was read: to write it back would lose what was cut off.
        full = {name for name in ours if name in texts and bounds.is_long(texts[name])}
        for name in ours:
            if name in texts and name not in full and (merged := extras.merge(texts[name], ours[name])) != texts[name]:
                groups.setdefault(merged, []).append(name)
        # What users wrote there may be long already, and that on one node must not keep the others from theirs.
        refused = [*full, *(name for text in [*groups] if bounds.is_long(text) for name in groups.pop(text))]
        outcomes = [await self._update(names, NodeChange(names="", extra=text)) for text, names in groups.items()]
        lost = _sorted((name for name in ours if name not in texts), *(each.unknown for each in outcomes))
        return Outcome(done=_sorted(set(ours) - set(lost) - set(refused)), unknown=lost, refused=_sorted(refused))

    async def create(self, names: Collection[str], *, line: str) -> Outcome:
        """Create nodes by the rest of a node line, such as `CPUs=8 RealMemory=4000 State=CLOUD`."""
        known = await self._states()
        if wanted := [name for name in names if name not in known]:
            text = hostlist.compress(wanted)
            change = NodeChange(names=text, extra=f"NodeName={text} {line}")
            await self._send(partial(self._library.wire.create_nodes, change), asked=f"create nodes {text}")
        return Outcome(done=_sorted(names))

    async def delete(
        self, names: Collection[str], *, seen: Mapping[str, Node] | None = None, must_stay: MustStay = _none_must
    ) -> Outcome:
        """Delete nodes. One that is gone already counts as done; one with a job on it is refused, by Slurm itself.

        With `seen`, one that is not as it was seen is refused too: a drain put on since would go with its record.
        `must_stay` is asked right before each call is sent.
        """
        table = await self._library.all_nodes()
        rows = {node.name: node for node in table.rows}
        odd = {text.partition(": ")[0] for text in table.unreadable} & set(names)
        there = sorted(set(names) & set(rows))
        found = [name for name in there if seen is None or (name in seen and guarded.same(seen[name], rows[name]))]
        why = dict.fromkeys(set(there) - set(found), "the node changed in the meantime")
        why |= dict.fromkeys(odd, "its record in Slurm cannot be read")
        try:
            why |= await self._delete(found, must_stay=must_stay)
        finally:
            if self._mirror:
                self._mirror.doubt()
        return Outcome(done=_sorted(set(names) - set(why)), refused=_sorted(why), why=why)

    async def _delete(self, wanted: Collection[str], *, must_stay: MustStay) -> dict[str, str]:
        """Delete all at once, else one by one. Give those that were refused, and why."""
        kept = dict(must_stay(wanted))
        names = [name for name in wanted if name not in kept]
        if not names:
            return kept
        if self._mirror:
            self._mirror.expect_gone(names)
        text = hostlist.compress(names)
        try:
            await self._send(partial(self._library.wire.delete_nodes, text), asked=f"delete nodes {text}")
        except (Unreachable, Unauthenticated, Denied):
            raise  # nothing that one node could do about
        except SlurmError as error:
            if len(names) > 1:
                for name in names:
                    kept |= await self._delete([name], must_stay=must_stay)
            elif not isinstance(error, UnknownName):
                kept[names[0]] = str(error)
        return kept

    async def reconfigure(self) -> None:
        """Make Slurm read its configuration again. Its daemons start themselves over; jobs go on."""
        await self._send(self._library.wire.reconfigure, asked="reconfigure")

    async def _update(
        self, names: Collection[str], change: NodeChange, *, attempts: Collection[Attempt] = ()
    ) -> Outcome:
        bounds.check_change(change)
        wanted = sorted(set(names))
        unknown: list[str] = []
        trouble: SlurmError | None = None
        for _ in range(ATTEMPTS):
            if not wanted:
                return Outcome(unknown=_sorted(unknown))
            order = replace(change, names=hostlist.compress(wanted))
            try:
                await self._send(partial(self._send_noted, order, attempts), asked=f"update nodes {order.names}")
            except UnknownName as error:
                trouble = error
            else:
                return Outcome(done=tuple(wanted), unknown=_sorted(unknown))
            known = await self._states()
            unknown += [name for name in wanted if name not in known]
            wanted = [name for name in wanted if name in known]
        raise trouble or AssertionError("an order without an attempt")

    def _send_noted(self, order: NodeChange, attempts: Collection[Attempt]) -> None:
        with guarded.noted(attempts):
            self._library.wire.update_nodes(order)

    async def _guarded(self, names: Collection[str], change: NodeChange, *, seen: Mapping[str, Node]) -> Outcome:
        bounds.check_change(change)
        rows = [seen[name] for name in sorted(set(names))]
        if len(rows) <= guarded.FEW and not any(guarded.is_altered(row.reason) for row in rows):
            told = await guarded.one_by_one(self._library, rows, change)
            self._unfinished.extend(told.unfinished)
            some = Outcome(done=told.done, unknown=told.unknown, changed=told.changed, covered=told.covered)
            return replace(some, troubles=told.troubles)
        return await self._guarded_at_once(rows, change)

    async def _guarded_at_once(self, rows: Collection[Node], change: NodeChange) -> Outcome:
        before = await self._rows()
        ready = [row for row in rows if row.name in before and guarded.same(row, before[row.name])]
        sent, between, after = await self._watched(ready, change)
        done = [row for row in ready if row.name in sent.done and row.name in after]
        lost = {row.name: guarded.covered(row, [between.get(row.name)], after[row.name], change=change) for row in done}
        overwritten = {name: drain for name, drain in lost.items() if drain is not None}
        unknown = _sorted(sent.unknown, (row.name for row in rows if row.name not in before))
        changed = {row.name for row in rows} - {row.name for row in ready} - set(unknown)
        return Outcome(done=sent.done, unknown=unknown, changed=_sorted(changed), covered=overwritten)

    async def _watched(
        self, ready: Collection[Node], change: NodeChange
    ) -> tuple[Outcome, dict[str, Node], dict[str, Node]]:
        """Change nodes, and read them during it and after it. If one of these fails, what was seen is kept."""
        attempts = [Attempt(row=row, change=replace(change, names=row.name)) for row in ready]
        order = self._update([row.name for row in ready], change, attempts=attempts)
        # Both to their end: what the read has seen must not go with the error of the order.
        sent, between = await asyncio.gather(order, self._rows(), return_exceptions=True)
        try:
            return _or_raise(sent), _or_raise(between), await self._rows()
        except SlurmError as trouble:
            seen = {} if isinstance(between, BaseException) else between
            self._keep(attempts, seen, trouble)
            raise

    def _keep(self, attempts: Iterable[Attempt], between: Mapping[str, Node], trouble: SlurmError) -> None:
        """Remember orders that went wrong, to be judged by a later read.

        What is refused for one of many nodes may have been done to the others, unless it is refused to us.
        """
        for attempt in attempts:
            rows = (attempt.row, between[attempt.row.name]) if attempt.row.name in between else (attempt.row,)
            attempt.seen = Watched(rows=rows, trouble=trouble)
        self._unfinished.extend(attempt for attempt in attempts if attempt.began and not isinstance(trouble, Denied))

    async def _rows(self) -> dict[str, Node]:
        return {node.name: node for node in (await self._library.all_nodes()).rows}

    async def _states(self) -> dict[str, NodeState]:
        return {node.name: node.state for node in (await self._library.all_nodes()).rows}

    async def _send(self, order: Callable[[], None], *, asked: str) -> None:
        await self._library.call(order, asked=asked)


def can_undrain(state: NodeState) -> bool:
    """Whether taking the drain back would do just that, and not revive the node as well."""
    return state.out_of_service and state.registered and state.base is not NodeBase.DOWN and not state.rebooting


def _or_raise(result: T | BaseException) -> T:
    if isinstance(result, BaseException):
        raise result
    return result


def _sorted(*names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({name for group in names for name in group}))
