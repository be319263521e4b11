"""When a node is stuck in completing a job."""

from datetime import UTC, datetime

from tests.unit.slurm.blank import blank

from sunk.slurm.records import Job
from sunk.slurm.states import JobBase, JobFlag
from sunk.syncer.conditions.completing import completing_since, patience

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_node_completes_since_its_first_job_ended() -> None:
    completing = JobBase.CANCELLED.value | JobFlag.COMPLETING.value
    jobs = [
        blank(Job, id=7, state_bits=completing, end_time=500),
        blank(Job, id=8, state_bits=completing, end_time=400),
    ]
    jobs.append(blank(Job, id=9, state_bits=JobBase.RUNNING.value, end_time=100))
    assert completing_since(jobs, seen=900) == 400
    assert completing_since([], seen=900) == 900


def test_patience_follows_the_setting_of_slurm_or_its_default() -> None:
    assert patience(0) == 720
    assert patience(300) == 1200
