"""The call of a prolog that waits until its Node is locked.

    POST /v1/nodes/<node>/pre-hook  {"job":4711,"restarts":0,"strict":false,"timeout":298}

| answer | when |
| --- | --- |
| 200 locked | the Pod's request names this run, and was answered, as strictly as this call needs it |
| 200 not-needed | a read of Slurm begun after the call shows that the run does not hold the node: cancelled, requeued, elsewhere |
| 408 timeout | the Node controller is at it, and other work has not left in time |
| 503 | in all that time nobody asked for the lock, or nobody took notice: leader, operator or Slurm is away |
| 400, 404 | the body makes no sense; the Pod is gone, or another one of its name is there |

Everything is decided on the Pod in the store and on what `announced` has made of Slurm, so every replica can answer: the
leader writes the request, and a standby sees it. 408 and 503 are told apart because of what the prolog makes of them: upon
the first, the node is drained until somebody has looked at the machine, which no outage of ours should cost; the drain
that follows from the second ends by itself.

Which number has to be answered. Requests of other runs make the number grow, and an answer may always be one behind. So
it is that of the first request seen which named the run, and a run that was gone from the request in between begins again:
the Node may have been unlocked meanwhile, while the Pod still carries the answer from before.

A call is one entry under the name of its node and one future. A change of a Pod costs a look under its name, and a read
of Slurm nothing. Everything is forgotten with the call: who calls again finds the same request of the same run.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from sunk.kube.cache.store import Store
from sunk.kube.resource import Key
from sunk.model import foreign, loopclock, names
from sunk.model.contract import lock
from sunk.model.contract.lock import JobRun, LockAnswer, LockRequest
from sunk.service.hooks.server import HookAnswer, HookCall
from sunk.syncer.hooks.announced import Announced, Announcement, Full
from sunk.syncer.pods import ComputePod

BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Seconds, upper bounds of the histogram."""


class LockCall(Struct, frozen=True):
    """The body. Slurm's own bounds: job ids have 32 bits, counts of requeues 16."""

    job: Annotated[int, Meta(ge=1, le=2**32 - 1)]
    restarts: Annotated[int, Meta(ge=0, le=2**16 - 1)] = 0
    strict: bool = False
    timeout: float = float("inf")
    """Seconds within which the caller wants an answer."""

    @property
    def run(self) -> JobRun:
        return JobRun(self.job, self.restarts)


# Deciding


class LockView(Struct, frozen=True):
    """What a Pod says of its lock."""

    uid: str
    asked: LockRequest | None
    """None if it cannot be read."""
    runs: frozenset[JobRun]
    given: LockAnswer | None

    def noticed(self, number: int) -> bool:
        """Whether the Node controller knows of this request. An answer to an earlier one says nothing about that."""
        given = self.given
        return given is not None and given.owner == self.uid and given.number >= number and given.state != lock.UNLOCKED


class Locked(Struct, frozen=True):
    pass


class NotNeeded(Struct, frozen=True):
    pass


class Gone(Struct, frozen=True):
    """There is no such Pod any more."""


class Wait(Struct, frozen=True):
    number: int | None = None
    """Which request has to be answered; None while none names the run."""


Decision = Locked | NotNeeded | Gone | Wait


def view(pod: ComputePod) -> LockView:
    asked = lock.read(pod.metadata.annotations.get(names.LOCK_REQUEST))
    runs = frozenset() if asked is None else frozenset(asked.runs)
    return LockView(pod.metadata.uid, asked, runs, lock.answer(pod.metadata.annotations))


def decide(seen: LockView | None, *, uid: str, call: LockCall, over: bool, number: int | None = None) -> Decision:
    """What to tell a call of the Pod with this uid. `number` is what the decision before this one has waited for.

    `over` is by a read of Slurm that began after the run was announced, and that is not in doubt.
    """
    if seen is None or seen.uid != uid:
        return Gone()
    if over:
        return NotNeeded()
    if seen.asked is None or call.run not in seen.runs:
        return Wait()
    wanted = LockRequest(number=seen.asked.number if number is None else number, strict=call.strict)
    return Locked() if lock.satisfies(seen.given, wanted, owner=uid) else Wait(wanted.number)


def timed_out(seen: LockView | None, *, call: LockCall, number: int | None) -> HookAnswer:
    """The answer when the time is over: whose fault it is decides what becomes of the node."""
    state = "unreadable" if seen is None or seen.given is None else seen.given.state
    if number is None:
        return _told(503, f"The lock was not requested for job {call.run}: no syncer leads, or it cannot write.")
    if seen is None or not seen.noticed(number):
        return _told(503, f"Request {number} was not answered: the lock of the Node is {state}. Does the operator run?")
    wanted = "strict lock" if call.strict else "lock"
    return HookAnswer(
        408,
        {
            "result": "timeout",
            "lock": state,
            "number": number,
            "answered": 0 if seen.given is None else seen.given.number,
            "message": f"Other work did not leave the Node in time: it is {state}, and job {call.run} needs the {wanted}.",
        },
    )


def _told(status: int, message: str) -> HookAnswer:
    return HookAnswer(status, {"message": message})


_ANSWERS: Final[dict[type[Any], HookAnswer]] = {
    Locked: HookAnswer(200, {"result": "locked"}),
    NotNeeded: HookAnswer(200, {"result": "not-needed"}),
    Gone: _told(404, "This Pod is gone."),
}


# Waiting


class PreHookStatistics(Struct, frozen=True):
    """For metrics."""

    waiting: int
    answers: dict[str, int]
    """By result: locked, not-needed, timeout, and the status of every other answer."""
    seconds: tuple[int, ...]
    """How many locks were there within each of `BUCKETS`, and in all."""
    sum_of_seconds: float


class _Waiting:
    """A call, and what it waits for."""

    __slots__ = ("answer", "call", "number", "uid")

    def __init__(self, call: LockCall, *, uid: str) -> None:
        self.call: Final = call
        self.uid: Final = uid
        self.number: int | None = None
        self.answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()

    def look(self, seen: LockView | None, *, over: bool = False) -> None:
        if self.answer.done():
            return
        found = decide(seen, uid=self.uid, call=self.call, over=over, number=self.number)
        if isinstance(found, Wait):
            self.number = found.number
        else:
            self.answer.set_result(found)


class PreHook:
    """A hook of the hook server, made together with the store of Pods. `timeout` bounds every wait."""

    def __init__(self, pods: Store[ComputePod], announced: Announced, *, namespace: str, timeout: float) -> None:
        self._pods = pods
        self._announced = announced
        self._namespace = namespace
        self._timeout = timeout
        self._calls: dict[str, dict[_Waiting, None]] = {}
        self._waiting = 0
        self._answers: Counter[str] = Counter()
        self._seconds = [0] * (len(BUCKETS) + 1)
        self._sum = 0.0
        pods.subscribe(self._on_pod)
        announced.when_over(self._on_over)

    def statistics(self) -> PreHookStatistics:
        return PreHookStatistics(self._waiting, dict(self._answers), tuple(self._seconds), self._sum)

    async def __call__(self, call: HookCall) -> HookAnswer:
        began = loopclock.now()
        answer = await self._answer(call)
        result = answer.body.get("result", str(answer.status))
        self._answers[result] += 1
        if result == "locked":
            self._count(loopclock.now() - began)
        return answer

    async def _answer(self, call: HookCall) -> HookAnswer:
        try:
            asked = foreign.decode(call.body, LockCall)
        except foreign.UnreadableJson as unreadable:
            return _told(400, f"The body is not valid: {unreadable}")
        waiting = _Waiting(asked, uid=call.caller.uid)
        try:
            with self._announcing(call.node, asked), self._registered(call.node, waiting):
                waiting.look(self._view(call.node))
                return await self._wait(call.node, waiting)
        except Full as full:
            return _told(503, f"{full}: try again")

    async def _wait(self, node: str, waiting: _Waiting) -> HookAnswer:
        try:
            async with asyncio.timeout(max(min(waiting.call.timeout, self._timeout), 0.0)):
                return _ANSWERS[type(await waiting.answer)]
        except TimeoutError:
            return timed_out(self._view(node), call=waiting.call, number=waiting.number)

    @contextmanager
    def _announcing(self, node: str, call: LockCall) -> Iterator[Announcement]:
        announcement = self._announced.announce(node, call.run, strict=call.strict)
        try:
            yield announcement
        finally:
            self._announced.release(announcement)

    @contextmanager
    def _registered(self, node: str, waiting: _Waiting) -> Iterator[None]:
        self._calls.setdefault(node, {})[waiting] = None
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            del self._calls[node][waiting]
            if not self._calls[node]:
                del self._calls[node]

    def _view(self, node: str) -> LockView | None:
        pod = self._pods.get(Key(self._namespace, node))
        return None if pod is None else view(pod)

    def _count(self, seconds: float) -> None:
        self._sum += seconds
        for number, bound in enumerate((*BUCKETS, float("inf"))):
            self._seconds[number] += seconds <= bound

    # What wakes a call

    def _on_pod(self, key: Key, _: ComputePod | None, after: ComputePod | None) -> None:
        calls = self._calls.get(key.name)
        if not calls:
            return
        seen = None if after is None else view(after)
        for waiting in calls:
            waiting.look(seen)

    def _on_over(self, node: str, run: JobRun) -> None:
        for waiting in self._calls.get(node, ()):
            if waiting.call.run == run:
                waiting.look(self._view(node), over=True)
