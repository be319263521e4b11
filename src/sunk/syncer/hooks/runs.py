"""Whether one run of a job holds a node, by its row in Slurm.

A prolog is ahead of the mirror: it runs the moment that its job gets the node, and the next read is up to a second away.
So a row that does not show the run yet proves nothing unless the read began after the prolog called. And a run that is
over never comes back, because a requeue makes another.
"""

from enum import Enum
from typing import Final

from sunk.model.contract import hooks
from sunk.model.contract.lock import JobRun
from sunk.slurm.records import Job
from sunk.slurm.states import JobBase


class Presence(Enum):
    """What a row says of a run on a node."""

    HOLDS = "holds the node"
    NOT_YET = "has not started, as far as the row goes"
    """Slurm does not know the job, has it pending, or in an earlier run."""
    OVER = "has ended, is ending, or was requeued"
    ELSEWHERE = "runs on other nodes"


ANNOUNCED: Final = frozenset({Presence.HOLDS, Presence.NOT_YET})
"""The lock is asked for upon the word of a prolog if the row, however old, does not contradict it."""


def run_of(job: Job) -> JobRun:
    return JobRun(job.id, job.restarts)


def is_placeholder(job: Job) -> bool:
    return job.extra.startswith(hooks.PLACEHOLDER)


def presence(run: JobRun, job: Job | None, *, here: bool) -> Presence:
    """What the row says that Slurm has under the number of the run's job; `here` if the job is on the node by it.

    That is an argument because a job of thousands of nodes would be looked through by each of their prologs.
    """
    if job is None or job.restarts < run.restarts:
        return Presence.NOT_YET
    if job.restarts > run.restarts or job.state.ended or job.state.completing:
        return Presence.OVER
    if job.state.base is JobBase.PENDING:
        return Presence.NOT_YET
    return Presence.HOLDS if here else Presence.ELSEWHERE


def is_over(run: JobRun, job: Job | None, *, here: bool) -> bool:
    """Whether a read that began after the prolog called shows that the run does not hold the node, and never will.

    A job that is not there, or pending again, was lost with the state of a slurmctld that died. One in an earlier run than
    its own prolog says cannot be: nothing is concluded from it.
    """
    if job is not None and job.restarts < run.restarts:
        return False
    return presence(run, job, here=here) is not Presence.HOLDS
