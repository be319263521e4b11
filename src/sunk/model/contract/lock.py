"""The lock of a Node: who asks for it, who answers, and when an answer is good for a job that is about to start.

    compute Pod    lock-request   {"number":7,"strict":false,"jobs":["4711/0"]}     written by the syncer
    Node           taint          sunk.coreweave.com/lock=true:NoExecute            written by the Node controller
                   lock           false, pending, locked or locked_strict
                   lock-number    7
                   lock-owner     uid of the compute Pod that asked
    compute Pod    lock, lock-number, lock-owner                                    copied by the Pod controller

A request names all jobs that hold the Slurm node, each with how often it was requeued: a job that comes back to the same
node under the same id is another run. The number grows whenever a run is named that was not there before, or the lock has
to be stricter. So an answer that carries the number was given after the request was seen, and no answer that is left over
from an earlier job can be mistaken for it (the copy on the Pod may be late by any time).

The lock is wanted while a request names jobs, or while the Pod says SlurmRunning. Both are written in one patch, so they
never contradict each other. What cannot be read is unknown, and the lock stays as it is.

`locked` means that no container of other work runs on the Node; `locked_strict` that the Pods are gone as objects too,
because a kubelet has to admit another Pod there next. The second satisfies a request for the first.
"""

from collections.abc import Mapping
from typing import Final, Literal, get_args

import msgspec
from msgspec import Struct

from sunk.model import names

State = Literal["false", "pending", "locked", "locked_strict"]
STATES: Final[tuple[State, ...]] = get_args(State)
UNLOCKED: Final[State] = "false"
PENDING: Final[State] = "pending"
LOCKED: Final[State] = "locked"
LOCKED_STRICT: Final[State] = "locked_strict"
HELD: Final = frozenset({LOCKED, LOCKED_STRICT})

LINGER: Final = 10
"""Seconds for which a Node stays locked when its Slurm node is idle: the next job may be about to come."""
LONGEST_LINGER: Final = 3600

TAINT_VALUE: Final = "true"
TAINT_EFFECT: Final = "NoExecute"
MOST_JOBS: Final = 4096
"""Runs that a request names. A node with more of them at once does not exist."""
MOST_NUMBER: Final = 10**15
"""A request beyond this cannot be read, and no answer reaches it: whoever has to count on begins above the last answer."""
LONGEST: Final = 131_072
"""Characters of a request that are read; an annotation can have twice as many."""


class JobRun(Struct, frozen=True, order=True):
    """One run of a job: a requeue makes another."""

    job_id: int
    restarts: int = 0

    def __str__(self) -> str:
        return f"{self.job_id}/{self.restarts}"


class LockRequest(Struct, frozen=True):
    """What the syncer asks for. Without jobs nobody needs the lock, and the number is kept for the next one."""

    number: int = 0
    strict: bool = False
    runs: tuple[JobRun, ...] = ()

    @property
    def job_ids(self) -> frozenset[int]:
        return frozenset(run.job_id for run in self.runs)


class LockAnswer(Struct, frozen=True):
    """How far the lock of a Node has come, for which request, and of which Pod."""

    state: State = UNLOCKED
    number: int = 0
    owner: str = ""

    @property
    def annotations(self) -> dict[str, str]:
        return {names.LOCK: self.state, names.LOCK_NUMBER: str(self.number), names.LOCK_OWNER: self.owner}


LOCK_ANNOTATIONS: Final = (names.LOCK, names.LOCK_NUMBER, names.LOCK_OWNER)


class _Written(Struct, frozen=True):
    number: int
    strict: bool = False
    jobs: tuple[str, ...] = ()


def write(request: LockRequest) -> str:
    written = _Written(number=request.number, strict=request.strict, jobs=tuple(map(str, request.runs)))
    return msgspec.json.encode(written).decode()


def read(text: str | None) -> LockRequest | None:
    """What the annotation asks for; nothing at all if there is none. None if it cannot be read."""
    if text is None:
        return LockRequest()
    if len(text) > LONGEST:
        return None
    try:
        written = msgspec.json.decode(text, type=_Written)
        runs = tuple(_run(job) for job in written.jobs)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return None
    if not 0 <= written.number <= MOST_NUMBER or len(runs) > MOST_JOBS:
        return None
    return LockRequest(number=written.number, strict=written.strict, runs=runs)


def _run(text: str) -> JobRun:
    job_id, _, restarts = text.partition("/")
    if not (job_id.isdecimal() and restarts.isdecimal() and len(text) < 32):  # noqa: PLR2004 - two numbers of 32 bits
        raise ValueError(text)
    return JobRun(int(job_id), int(restarts))


def answer(annotations: Mapping[str, str]) -> LockAnswer | None:
    """What a Node says of its lock, or a Pod by its copy; unlocked if it says nothing. None if it cannot be read."""
    state = annotations.get(names.LOCK, UNLOCKED)
    number = annotations.get(names.LOCK_NUMBER, "0")
    if state not in STATES or not number.isdecimal() or len(number) >= len(str(MOST_NUMBER)):
        return None
    return LockAnswer(state=state, number=int(number), owner=annotations.get(names.LOCK_OWNER, ""))


def satisfies(given: LockAnswer | None, wanted: LockRequest, *, owner: str) -> bool:
    """Whether an answer is good for a request of this Pod: given for it or a later one, and strict enough."""
    if given is None or given.owner != owner or given.number < wanted.number:
        return False
    return given.state == LOCKED_STRICT or (given.state == LOCKED and not wanted.strict)


def next_request(before: LockRequest, runs: frozenset[JobRun], *, strict: bool) -> LockRequest:
    """The request for the runs that hold the node now.

    Strictness is never lowered before the node is idle: a Pod of our scheduler may be there still. A run that has ended
    stays named as long as that harms nobody, since to take it off would be a write for each job that ends; it is the
    caller who knows whether it does.
    """
    if not runs:
        return LockRequest(number=before.number)
    stricter = strict and not before.strict
    grows = stricter or not runs <= frozenset(before.runs)
    return LockRequest(
        number=before.number + grows,
        strict=strict or before.strict,
        runs=tuple(sorted(runs)),
    )
