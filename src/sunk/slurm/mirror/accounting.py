"""Whether jobs that vanished have ended, asked of accounting.

The problem. Jobs end and are purged while nobody can read Slurm. If slurmctld was restarted meanwhile, or only told to
read its configuration, that cannot be told from a slurmctld that lost its state, and everything is held back until a
person accepts it. slurmdbd often knows: slurmctld tells it of every end of a job. But slurmdbd also closes jobs by
itself, and that proves nothing.

What is in the row of a job, by who wrote it (the source of 24.11; lost state and ends are tried on 26.05 too):

| written | state | end | who ended it |
| --- | --- | --- | --- |
| by slurmctld when a job ends | how it ended | when | the user, if it was cancelled |
| by slurmctld when a job is requeued or resized | REQUEUED, RESIZING; a further row follows | when | |
| by slurmctld when a node is lost | NODE_FAIL; the job may still run there | when | |
| for a slurmctld that starts cold (-c), on 24.11 also without its state | CANCELLED | its last save, or now | nobody |
| by a person: `sacctmgr show runawayjobs` | COMPLETED | its start | nobody |

The rule. A row proves the end of a job if it has a state that only slurmctld writes, for a job that it knew: COMPLETED,
FAILED, TIMEOUT, OUT_OF_MEMORY, DEADLINE, or CANCELLED by somebody; if a COMPLETED job ended after its start; and if no
job ended before we saw it unfinished. Not the number alone makes it the same job, but also its user and submit time.
All later rows of that user and number have to prove an end too: they are the same job, requeued, or another one for all
that anybody can tell. So have the tasks of an array that was lost while it still had tasks to split off, unless they
ended before: what was split off later cannot have. FAILED proves nothing for a part of a heterogeneous job: a slurmctld
that starts and misses another part of it calls the rest FAILED, and kills nothing.

The end is not compared with the start of slurmctld. slurmdbd gives the jobs it closes for a cold start an end *before*
that start, and a job that ended after it was known to that slurmctld, or there would be no such row.

How it is asked. By libslurm, like everything else: sacct is not in our image, and to parse its text would be more code
than the call. In a task and a thread of its own, so that a slurmdbd that is away or slow delays nobody; an answer that
takes long is heard when it comes. Only while a suspicion about jobs stands, only for those jobs, some hundred at once,
every ten seconds and less often with every round that brings nothing. What cannot be asked proves nothing, and nothing
is said about it.

How much it answers. Our process remembers what is missing, so it must not end by the answer. For a number slurmdbd also
gives all tasks of the array that has it, as many as ever ran. So it is asked only for rows that end after the jobs were
last seen, or not at all; an array counts as the tasks that it still has; and one that is too large is left to a person.
A row takes 520 bytes in libslurm, about 2 KiB with its texts, and half of that again while it is unpacked.

Where accounting is switched on later, a process that runs already asks nothing: libslurm reads its configuration once.
"""

import asyncio
import logging
import re
from collections.abc import Collection, Iterable, Mapping
from itertools import accumulate
from typing import Final, Never, Protocol

from msgspec import Struct

from sunk.model import loopclock
from sunk.model.backoff import BackOff
from sunk.model.faults import survived
from sunk.slurm.errors import SlurmError, Unreachable
from sunk.slurm.mirror.confidence import MissingRow, named
from sunk.slurm.mirror.mirror import Mirror
from sunk.slurm.records import Accounted, Configuration, Job, Table
from sunk.slurm.states import JobBase

log = logging.getLogger(__name__)

SLURMDBD: Final = "accounting_storage/slurmdbd"
MOST: Final = 500
"""Jobs that are asked for at once."""
ROWS: Final = 5_000
"""Rows that are expected from one question, unless a single array has more: about 15 MB."""
LARGEST: Final = 20_000
"""Rows that may be expected of a single array: about 60 MB."""
GUESS: Final = 250
"""Rows of an array, at least: some of its tasks may have run when it was last seen."""
EVERY: Final = 10.0
"""Seconds between two questions."""
FRUITLESS: Final = BackOff(first=EVERY, longest=300.0)
"""The same, where all of them bring nothing."""
_BY_SLURMCTLD: Final = frozenset(
    {JobBase.COMPLETED, JobBase.FAILED, JobBase.TIMEOUT, JobBase.OUT_OF_MEMORY, JobBase.DEADLINE}
)
_WHOLE: Final = 50
"""Characters of the tasks of an array that are surely all of them: Slurm shows about 60 and cuts the rest."""
_TASKS: Final = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


class AccountingSource(Protocol):
    """Who is asked."""

    async def configuration(self) -> Configuration: ...
    async def accounted(self, cluster: str, jobs: Collection[int], *, since: int) -> Table[Accounted]: ...


def proves_end(lost: MissingRow[Job], rows: Iterable[Accounted]) -> bool:
    """Whether accounting proves that a job that vanished has ended. `rows` may be of other jobs too."""
    job = lost.row
    own = [row for row in rows if _belongs(row, lost)]
    known = any((row.id, row.submit_time) == (job.id, job.submit_time) for row in own)
    states = _BY_SLURMCTLD - {JobBase.FAILED} if job.het_id else _BY_SLURMCTLD
    return known and all(_has_ended(row, after=lost.until, states=states) for row in own)


def _belongs(row: Accounted, lost: MissingRow[Job]) -> bool:
    job = lost.row
    if row.user_id != job.user_id or row.submit_time < job.submit_time:
        return False
    if row.id == job.id:
        return True
    return job.array_tasks != "" and row.array_id == job.id and not 0 < row.end_time < lost.until


def _has_ended(row: Accounted, *, after: float, states: Collection[JobBase]) -> bool:
    if row.end_time == 0 or row.end_time < after or row.state.flags:
        return False
    if row.state.base is JobBase.CANCELLED:
        return row.ended_by is not None
    if row.state.base is JobBase.COMPLETED and row.end_time <= row.start_time:
        return False
    return row.state.base in states


def expected_rows(job: Job) -> int:
    """How many rows slurmdbd may give for the number of a job."""
    return max(GUESS, 1 + _waiting(job.array_tasks)) if job.array_id == job.id else 1


def _waiting(tasks: str) -> int:
    """How many tasks an array has still to split off: `0-9,20-30:2%4` are 16. 0 if it cannot be told."""
    ranges = [_TASKS.fullmatch(each) for each in tasks.partition("%")[0].split(",")]
    if len(tasks) > _WHOLE:
        return 0
    return sum(_size(*each.groups()) for each in ranges if each is not None)


def _size(first: str, last: str | None, step: str | None) -> int:
    return (int(last or first) - int(first)) // int(step or 1) + 1


class Question(Struct, frozen=True):
    """Some of the missing jobs, and what accounting proves of them as soon as it has answered."""

    jobs: Mapping[int, MissingRow[Job]]
    reached: int
    """The last of them if there are more to ask for, else 0."""
    answer: "asyncio.Task[dict[int, MissingRow[Job]] | None]"


class Inquiry:
    """Asks for the jobs that a mirror misses, for as long as it does."""

    def __init__(self, source: AccountingSource, mirror: Mirror) -> None:
        self._source = source
        self._mirror = mirror
        self._known: frozenset[int] = frozenset()
        self._question: Question | None = None
        self._reached = 0
        """The last job that was answered for in this round; 0 if a round begins."""
        self._fruitful = False
        """Something was proven in this round."""
        self._fruitless = 0
        """Rounds in a row that proved nothing."""
        self._next = 0.0

    async def run(self) -> Never:
        try:
            while True:
                await asyncio.sleep(EVERY)
                with survived("accounting of lost jobs"):
                    await self._look()
        finally:
            if self._question is not None:
                self._question.answer.cancel()

    async def _look(self) -> None:
        missing = dict(self._mirror.missing_jobs)
        if missing.keys() - self._known:
            self._fruitless, self._next, self._reached = 0, 0.0, 0
        self._known = frozenset(missing)
        asked = self._question = self._question or self._begin(missing)
        if asked is None:
            return
        await asyncio.wait({asked.answer}, timeout=EVERY)
        if asked.answer.done():
            self._question = None
            self._hear(asked)

    def _begin(self, missing: Mapping[int, MissingRow[Job]]) -> Question | None:
        """Ask for the next of them, as many as one question may be about."""
        sizes = {number: expected_rows(lost.row) for number, lost in missing.items()}
        asked_for = sorted(number for number, size in sizes.items() if size <= LARGEST)
        if not asked_for or loopclock.now() < self._next:
            return None
        left = [number for number in asked_for if number > self._reached] or asked_for
        fitting = sum(total <= ROWS for total in accumulate(sizes[number] for number in left[:MOST]))
        batch = left[: max(fitting, 1)]
        jobs = {number: missing[number] for number in batch}
        answer = asyncio.create_task(self._ask(jobs), name="accounting of lost jobs")
        return Question(jobs, reached=batch[-1] if len(left) > len(batch) else 0, answer=answer)

    def _hear(self, asked: Question) -> None:
        proven = asked.answer.result()
        if proven:
            log.info("accounting confirms that %s jobs have ended: %s", len(proven), named(proven))
            self._mirror.hear_ended(proven)
        if proven is not None:
            self._reached = asked.reached
            self._fruitful = bool(proven) or self._fruitful
        if proven:
            self._fruitless = 0
        elif proven is None or not (self._reached or self._fruitful):
            self._fruitless += 1
        self._fruitful = self._fruitful and self._reached > 0
        self._next = loopclock.now() + FRUITLESS.delay(self._fruitless + 1) - EVERY / 2  # looked at once in EVERY

    async def _ask(self, missing: Mapping[int, MissingRow[Job]]) -> dict[int, MissingRow[Job]] | None:
        """Give those that have ended; None if nobody answers."""
        since = int(min(lost.until for lost in missing.values())) - 1
        try:
            runs = await self._source.configuration()
            if runs.accounting != SLURMDBD:
                return None
            found = await self._source.accounted(runs.cluster, missing, since=max(since, 0))
        except SlurmError as error:
            log.debug("cannot query accounting: %s", error)
            # A refusal may be about these jobs: the others have their turn before they are asked for again.
            return None if isinstance(error, Unreachable) else {}
        if found.unreadable:  # it may be the one that says otherwise
            return {}
        rows: dict[int, list[Accounted]] = {}
        for row in found.rows:
            for number in {row.id, row.array_id} & missing.keys():
                rows.setdefault(number, []).append(row)
        return {number: lost for number, lost in missing.items() if proves_end(lost, rows.get(number, ()))}
