"""All reasons not to act on a read: what `confidence` finds, and what could not be read or followed.

A row that cannot be read, and a change that one of us failed over, are faults of ours. They spoil what they are about:
the row stays as it was last read, and all others are as they should be. But who destroys would do so upon something that
may be otherwise, so until it is mended nothing is destroyed.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from sunk.model import loopclock
from sunk.slurm.mirror.confidence import JobNumbers, Losses, MissingRow, Passage, Suspicion, explains_job, is_same_job
from sunk.slurm.mirror.rows import Rows, TableDifference
from sunk.slurm.records import Job, Node

_SHOWN = 3


class Doubts:
    """What keeps the tables of a mirror from being believed."""

    def __init__(self, nodes: Rows[str, Node], jobs: Rows[int, Job], *, share: float, job_share: float) -> None:
        self._nodes, self._jobs = nodes, jobs
        self._lost_nodes = Losses(
            nodes, share=share, explains=lambda lost, _: self._is_leaving(lost.row), may_go=self._is_leaving
        )
        # Slurm forgets a job some minutes after its end, and thousands of them at once.
        self._lost_jobs = Losses(
            jobs, share=job_share, explains=explains_job, may_go=lambda job: job.state.ended, same=is_same_job
        )
        self._job_numbers = JobNumbers()
        self._leaving: dict[str, float] = {}
        self._unreadable: dict[str, Suspicion] = {}

    def suspicions(self, tables: Iterable[Rows[Any, Any]]) -> tuple[Suspicion, ...]:
        checks = (check.suspicion for check in (self._lost_nodes, self._lost_jobs, self._job_numbers))
        found = tuple(suspicion for suspicion in checks if suspicion is not None)
        return (*found, *self._unreadable.values(), *_unheard(tables))

    def expect_gone(self, nodes: Collection[str], *, until: float) -> None:
        now = loopclock.now()
        self._leaving = {name: when for name, when in self._leaving.items() if when > now}
        self._leaving |= dict.fromkeys(nodes, until)

    def accept(self, tables: Iterable[Rows[Any, Any]]) -> None:
        for check in (self._lost_nodes, self._lost_jobs, self._job_numbers):
            check.accept()
        for rows in tables:
            rows.unheard.clear()

    @property
    def missing_jobs(self) -> Mapping[int, MissingRow[Job]]:
        return self._lost_jobs.missing

    def explain_jobs(self, proven: Mapping[int, MissingRow[Job]]) -> None:
        self._lost_jobs.explain(proven, now=loopclock.now())

    def examine(self, rows: Rows[Any, Any], difference: TableDifference[Any, Any], passage: Passage) -> None:
        """Look at a newer table before it takes the place of the rows."""
        if rows is self._nodes:
            self._lost_nodes.examine(difference, passage)
        elif rows is self._jobs:
            self._lost_jobs.examine(difference, passage)
            new: list[Job] = [difference.rows[number] for number in difference.new]
            self._job_numbers.examine(new, passage)

    def unreadable(self, table: str, texts: Collection[str], *, now: float) -> None:
        """Hear which rows of a table could not be read."""
        if not texts:
            self._unreadable.pop(table, None)
            return
        held = self._unreadable.get(table)
        reason = f"{len(texts)} rows of {table} cannot be read: {'; '.join(sorted(texts)[:_SHOWN])}"
        self._unreadable[table] = Suspicion(since=held.since if held else now, reason=reason)

    def _is_leaving(self, node: Node) -> bool:
        return self._leaving.get(node.name, 0.0) > loopclock.now()


def _unheard(tables: Iterable[Rows[Any, Any]]) -> Iterator[Suspicion]:
    for rows in tables:
        if rows.unheard:
            keys = sorted({str(key) for _, key in rows.unheard})
            _, fault = next(iter(rows.unheard.values()))
            reason = f"could not process a change to {rows.name} {', '.join(keys[:_SHOWN])}: {fault}"
            yield Suspicion(since=loopclock.now(), reason=reason)
