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
that anybody can tell. So have the tasks of an array that was lost while it still had tasks to split off.

The end is not compared with the start of slurmctld. slurmdbd gives the jobs it closes for a cold start an end *before*
that start, and a job that ended after it was known to that slurmctld, or there would be no such row.

How it is asked. By libslurm, like everything else: sacct is not in our image, and to parse its text would be more code
than the call. In a task and a thread of its own, so that a slurmdbd that is away or slow delays nobody. Only while a
suspicion about jobs stands, only for those jobs, some hundred at once, every ten seconds and less often while it brings
nothing. What cannot be asked proves nothing, and nothing is said about it.

Where accounting is switched on later, a process that runs already asks nothing: libslurm reads its configuration once.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Never, Protocol

from sunk.model.faults import survived
from sunk.slurm.belief import Lost, named
from sunk.slurm.errors import SlurmError
from sunk.slurm.mirror import Mirror
from sunk.slurm.records import Accounted, Configuration, Job, Table
from sunk.slurm.states import JobBase

log = logging.getLogger(__name__)

SLURMDBD: Final = "accounting_storage/slurmdbd"
MOST: Final = 500
"""Jobs that are asked for at once."""
EVERY: Final = 10.0
LONGEST: Final = 300.0
"""Seconds between two questions, where all of them bring nothing."""
PATIENCE: Final = 60.0
_BY_SLURMCTLD: Final = frozenset(
    {JobBase.COMPLETED, JobBase.FAILED, JobBase.TIMEOUT, JobBase.OUT_OF_MEMORY, JobBase.DEADLINE}
)


class Source(Protocol):
    """Who is asked."""

    async def configuration(self) -> Configuration: ...
    async def accounted(self, cluster: str, jobs: Collection[int]) -> Table[Accounted]: ...


def proves_end(lost: Lost[Job], rows: Iterable[Accounted]) -> bool:
    """Whether accounting proves that a job that vanished has ended. `rows` may be of other jobs too."""
    job = lost.row
    own = [row for row in rows if _belongs(row, job)]
    known = any((row.id, row.submit_time) == (job.id, job.submit_time) for row in own)
    return known and all(_has_ended(row, after=lost.until) for row in own)


def _belongs(row: Accounted, job: Job) -> bool:
    if row.user_id != job.user_id or row.submit_time < job.submit_time:
        return False
    return row.id == job.id or (job.array_tasks != "" and row.array_id == job.id)


def _has_ended(row: Accounted, *, after: float) -> bool:
    if row.end_time == 0 or row.end_time < after or row.state.flags:
        return False
    if row.state.base is JobBase.CANCELLED:
        return row.ended_by is not None
    if row.state.base is JobBase.COMPLETED and row.end_time <= row.start_time:
        return False
    return row.state.base in _BY_SLURMCTLD


class Inquiry:
    """Asks for the jobs that a mirror misses, for as long as it does."""

    def __init__(self, source: Source, mirror: Mirror) -> None:
        self._source = source
        self._mirror = mirror
        self._known: frozenset[int] = frozenset()
        self._reached = 0
        """The last job of the last question, if there are more."""
        self._pause = EVERY
        self._next = 0.0

    async def run(self) -> Never:
        while True:
            await asyncio.sleep(EVERY)
            with survived("accounting of lost jobs"):
                await self._look()

    async def _look(self) -> None:
        missing = dict(self._mirror.missing_jobs)
        if missing.keys() - self._known:
            self._pause, self._next, self._reached = EVERY, 0.0, 0
        self._known = frozenset(missing)
        if not missing or _now() < self._next:
            return
        proven = await self._ask({number: missing[number] for number in self._batch(missing)})
        if proven:
            log.info("accounting says that %s jobs have ended: %s", len(proven), named(proven))
            self._mirror.hear_ended(proven)
        fruitful = proven or (proven is not None and self._reached)
        self._pause = EVERY if fruitful else min(2 * self._pause, LONGEST)
        self._next = _now() + self._pause - EVERY / 2  # looked at once in EVERY

    def _batch(self, missing: Collection[int]) -> list[int]:
        left = sorted(number for number in missing if number > self._reached) or sorted(missing)
        batch = left[:MOST]
        self._reached = batch[-1] if len(left) > MOST else 0
        return batch

    async def _ask(self, missing: Mapping[int, Lost[Job]]) -> dict[int, Lost[Job]] | None:
        """Give those that have ended; None if nobody can tell."""
        try:
            async with asyncio.timeout(PATIENCE):
                runs = await self._source.configuration()
                if runs.accounting != SLURMDBD:
                    return None
                found = await self._source.accounted(runs.cluster, missing)
        except (SlurmError, TimeoutError) as error:
            log.debug("accounting cannot be asked: %s", error)
            return None
        if found.unreadable:  # it may be the one that says otherwise
            return None
        rows: dict[int, list[Accounted]] = {}
        for row in found.rows:
            for number in {row.id, row.array_id} & missing.keys():
                rows.setdefault(number, []).append(row)
        return {number: lost for number, lost in missing.items() if proves_end(lost, rows.get(number, ()))}


def _now() -> float:
    return asyncio.get_running_loop().time()
