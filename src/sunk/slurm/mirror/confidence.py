"""How far Slurm is believed: whether it is known at all, and whether what it says can be true.

The problem. A controller that lost its state says that things are gone with full conviction, and Pods are deleted upon
its word. But things do go, and who holds everything back over each of them stops a cluster for nothing.

The design. Not how many rows there are is looked at but which ones went, and whether Slurm can have let go of them:

- A job that was seen to have ended may go at any time. Slurm keeps it for MinJobAge, so while Slurm is read there is no
  other way for a job to go.
- If nobody could read for MinJobAge or longer, and slurmctld was not started meanwhile, a job may have ended unseen.
- A running job whose time limit passed more than MinJobAge ago has ended, whoever was away.
- slurmctld writes down what it knows some seconds late. If it was killed, jobs that were submitted within `UNSAVED`
  seconds before that may be forgotten, and their numbers given out again. Nothing else is lost with them. A task of an
  array gets its number when it starts, long after it was submitted: it counts from when it was first seen.
- A node goes if somebody deletes it. Those that we delete are announced.

What went otherwise is unexplained. A few of these are believed (`FLOOR`): a person deleted a node, a job slipped
through. So are those that are not more than a share of the rows: half of the nodes, a tenth of the unfinished jobs.
Losses within `TOGETHER` seconds count as one, against what was there before the first. More than that is hard to
believe, and stays so, whatever comes to be in its place, until no more than the floor of it is missing: the others are
back (as what they were: a number that was given to another job is not), have ended by their limit, or have ended as
accounting proves (`accounting`). Or somebody who knows better accepts it.

Job numbers only grow. A slurmctld that was started and gives out one that had been given to another job long enough ago
to be written down has lost its state, also if nothing is seen to be missing. That ends when another slurmctld goes on
with the old numbers, or by a person.

What was refused: to take every job for ended that accounting calls so. slurmdbd closes all jobs of a slurmctld that
starts cold or without its state, which proves nothing but the loss. Nor is accounting asked before a loss is called
hard to believe: it may be slow or away, and a read waits for nobody.

Also refused: to remember this across a restart of our process. It would have to be written somewhere, and be
trusted over what Slurm says when nobody knows for how long it was true. A new process has the Pods to compare with: it
holds everything back while Slurm does not know them (`sunk.syncer.removal.unregistered`), but it cannot miss a job that it never saw.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Generic, TypeAlias

from msgspec import Struct

from sunk.slurm.mirror.rows import K, Rows, T, TableDifference
from sunk.slurm.records import Job
from sunk.slurm.states import JobBase

FLOOR: Final = 1
"""So many unexplained losses are always believed."""
TOGETHER: Final = 60.0
"""Seconds within which losses count as one."""
UNSAVED: Final = 10.0
"""Seconds that slurmctld may take to write down what it knows: its own bound is 5."""
ROUNDING: Final = 2
"""Seconds: two times of whole seconds, each up to one too early."""
_SHOWN: Final = 3


class Known(Struct, frozen=True):
    """Slurm answers. Times are the loop's; `version` counts the reads."""

    since: float
    version: int


class Unknown(Struct, frozen=True):
    """Nobody knows what Slurm does, and for which reason."""

    since: float
    reason: str


State: TypeAlias = Known | Unknown


class Stale(Exception):  # noqa: N818 - named as in sunk.slurm.errors
    """What is known of Slurm is not enough to act upon. Nothing is wrong with the act; it has to wait."""


class Suspicion(Struct, frozen=True):
    """What reads have shown that is hard to believe. `missing` are the keys that are gone, out of `before` many."""

    since: float
    reason: str
    before: int = 0
    missing: frozenset[str | int] = frozenset()
    lost: frozenset[str | int] = frozenset()
    """All that were missing at some time since then. It only grows, in every copy of the syncer alike, where `missing`
    shrinks with each answer of accounting."""


class Passage(Struct, frozen=True):
    """What happened between two reads. In seconds; `now` by the loop's clock, `clock` by slurmctld's."""

    now: float
    gap: float = 0.0
    """Since the read before, up to when the tables were asked for that `clock` came with."""
    clock: int = 0
    restarted: bool = False
    """slurmctld was started in between, or told to read its configuration, which is the same to it."""
    boot: int = 0
    """When that was, or the start before."""
    min_job_age: int = 0
    """MinJobAge of slurmctld; 0 means that it forgets no job."""

    @property
    def unsaved_since(self) -> float:
        """What is younger than this a slurmctld may have forgotten that was killed right after the read before."""
        return self.clock - self.gap - UNSAVED - 1

    @property
    def read_before(self) -> float:
        """When the read before began by slurmctld's clock, or a moment earlier: it shows whole seconds."""
        return self.clock - self.gap - ROUNDING


class MissingRow(Struct, Generic[T], frozen=True):
    """A row that went, and when. `seen` is when it was first read, by slurmctld's clock; 0 if that is long ago."""

    row: T
    when: float
    seen: int = 0
    until: float = 0.0
    """When it was read for the last time, by slurmctld's clock, or a moment earlier."""


def explains_job(lost: MissingRow[Job], passage: Passage) -> bool:
    """Whether Slurm can have let go of a job for a reason that we know: at the time of the loss, or by now."""
    job, forgets = lost.row, passage.min_job_age
    if job.state.ended:
        return True
    if lost.when == passage.now and _slipped_away(lost, passage):
        return True
    limited = job.state.base is JobBase.RUNNING and job.time_limit is not None and job.end_time > 0
    return limited and forgets > 0 and passage.clock >= job.end_time + forgets


def _slipped_away(lost: MissingRow[Job], passage: Passage) -> bool:
    if passage.restarted:
        return _numbered(lost.row, seen=lost.seen) >= passage.unsaved_since
    return 0 < passage.min_job_age <= passage.gap + 1  # Slurm's times are of whole seconds


def _numbered(job: Job, *, seen: int) -> int:
    """When a job got its number, or later. The array itself keeps the number that it was submitted with."""
    split_off = job.array_id not in {0, job.id}
    return max(job.submit_time, seen) if split_off else job.submit_time


def is_same_job(before: Job, after: Job) -> bool:
    """Whether a number still stands for the same job. One that is requeued is submitted again."""
    if (before.user_id, before.array_id, before.het_id) != (after.user_id, after.array_id, after.het_id):
        return False
    return before.submit_time == after.submit_time or after.restarts > before.restarts


class Losses(Generic[K, T]):
    """Watches one table for losses that are hard to believe: more than a share of its rows, and than the floor."""

    def __init__(
        self,
        rows: Rows[K, T],
        *,
        share: float,
        explains: Callable[[MissingRow[T], Passage], bool],
        may_go: Callable[[T], bool],
        same: Callable[[T, T], bool] = lambda _, __: True,
    ) -> None:
        """`may_go` says of a row that it can go at any time: it is none of those that the share is of."""
        self.suspicion: Suspicion | None = None
        self._rows = rows
        self._share = share
        self._explains = explains
        self._may_go = may_go
        self._same = same
        self._missing: dict[K, MissingRow[T]] = {}
        self._seen: dict[K, int] = {}
        """When rows were first read that are so young that slurmctld may not have written them down."""
        self._before = 0

    def examine(self, difference: TableDifference[K, T], passage: Passage) -> None:
        """Look at a newer table before it takes the place of the rows."""
        fresh = {key: lost for key, lost in self._lost(difference, passage) if not self._explains(lost, passage)}
        still = {key: lost for key, lost in self._missing.items() if not self._over(key, lost, difference, passage)}
        if fresh and not still:
            self._before = sum(not self._may_go(row) for row in self._rows.all())
        self._missing = still | fresh
        self._note(difference, passage)
        self._judge(passage.now)

    @property
    def missing(self) -> Mapping[K, MissingRow[T]]:
        """What the suspicion is about; empty while there is none."""
        return self._missing if self.suspicion is not None else {}

    def explain(self, proven: Mapping[K, MissingRow[T]], *, now: float) -> None:
        """Hear that there is a reason for these losses. What went again meanwhile is another loss."""
        self._missing = {key: lost for key, lost in self._missing.items() if proven.get(key) is not lost}
        self._judge(now)

    def accept(self) -> None:
        self.suspicion, self._missing = None, {}

    def _lost(self, difference: TableDifference[K, T], passage: Passage) -> Iterable[tuple[K, MissingRow[T]]]:
        for key, before, after in difference.changes:
            # A number is given to another job only by a slurmctld that forgot the first one.
            gone = after is None or (passage.restarted and before is not None and not self._same(before, after))
            if before is not None and gone:
                yield key, MissingRow(before, passage.now, seen=self._seen.get(key, 0), until=passage.read_before)

    def _note(self, difference: TableDifference[K, T], passage: Passage) -> None:
        seen = self._seen | dict.fromkeys(difference.new, passage.clock)
        self._seen = {key: when for key, when in seen.items() if when >= passage.unsaved_since - UNSAVED}

    def _over(self, key: K, lost: MissingRow[T], difference: TableDifference[K, T], passage: Passage) -> bool:
        """Whether a loss is none any more, or was believed long enough ago to be of no account for later ones."""
        back = difference.rows.get(key)
        if (back is not None and self._same(lost.row, back)) or self._explains(lost, passage):
            return True
        return self.suspicion is None and passage.now - lost.when > TOGETHER

    def _judge(self, now: float) -> None:
        held, self.suspicion, count = self.suspicion, None, len(self._missing)
        if count <= FLOOR or (held is None and count <= self._share * self._before):
            return
        before = max(self._before, count)
        since = held.since if held is not None else now
        reason = f"{count} of {before} {self._rows.name} disappeared at once: {named(self._missing)}"
        missing: frozenset[K] = frozenset(self._missing)
        lost = missing if held is None else held.lost | missing
        self.suspicion = Suspicion(since=since, reason=reason, before=before, missing=missing, lost=lost)


class JobNumbers:
    """Watches the numbers of jobs, which only grow, until the configured largest is reached after many millions."""

    def __init__(self) -> None:
        self.suspicion: Suspicion | None = None
        self._highest: deque[tuple[int, int]] = deque()
        """When a number was given out that is above all earlier ones: the last few, and one from before them."""
        self._mark = 0
        self._another = False
        """slurmctld was started, and has not given out a number since."""

    def examine(self, new: Iterable[Job], passage: Passage) -> None:
        """Look at jobs that were not there in the last read."""
        found = sorted(new, key=lambda job: job.id)
        if passage.restarted:
            saved = self._saved(passage)
            self._mark = max(saved, self._mark if self.suspicion else 0)
            # The others may be given out again, and must not look old at the start after this one.
            self._highest = deque(each for each in self._highest if each[1] <= saved)
            self._another = True
        # Those of before may come back with their numbers, and it is well if they do.
        given = next((job.id for job in found if job.submit_time >= passage.boot), None)
        if given is not None:
            self._judge(given, passage)
        self._note(found, passage)

    def _judge(self, given: int, passage: Passage) -> None:
        if given > self._mark and self._another:
            self.suspicion = None
        elif given <= self._mark and self.suspicion is None:  # the first one tells all; many may follow
            reason = (
                f"after its restart slurmctld assigned job number {given}, though it had already reached {self._mark}"
            )
            self.suspicion = Suspicion(since=passage.now, reason=reason)
        self._another = False

    def _saved(self, passage: Passage) -> int:
        """The highest number that the slurmctld of before had written down for certain."""
        return max((number for when, number in self._highest if when < passage.unsaved_since), default=0)

    def accept(self) -> None:
        """Numbers begin again: those of before say nothing any more, also not after the next start."""
        self.suspicion, self._mark = None, 0
        self._highest.clear()

    def _note(self, found: Iterable[Job], passage: Passage) -> None:
        for job in found:
            if not self._highest or job.id > self._highest[-1][1]:
                self._highest.append((_numbered(job, seen=passage.clock), job.id))
        while len(self._highest) > 1 and self._highest[1][0] < passage.unsaved_since - UNSAVED:
            self._highest.popleft()


def named(keys: Iterable[str | int]) -> str:
    """Some of them by name, and how many more."""
    known = sorted(keys, key=str)
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return ", ".join(map(str, known[:_SHOWN])) + more
