"""A Pod asks for the lock of its Node while jobs hold its Slurm node: at once, in few writes, and never by mistake."""

import asyncio

import pytest
from tests.integration.syncer.stage import Stage, on_stage
from tests.versions import BOTH

from sunk.model import names
from sunk.model.contract import hooks, lock
from sunk.model.contract.lock import JobRun, LockRequest
from sunk.syncer.pods import ComputePod, holds

pytestmark = on_stage
VERSIONS = BOTH
SHARED = ("--mem=50", "--cpus-per-task=1")


def asked(pod: ComputePod) -> LockRequest | None:
    return lock.read(pod.metadata.annotations.get(names.LOCK_REQUEST))


async def asks(stage: Stage, name: str, *runs: JobRun, number: int | None = None, **patience: float) -> LockRequest:
    """Wait until a Pod asks for exactly these."""

    def as_wanted(pod: ComputePod) -> bool:
        found = asked(pod)
        return found is not None and found.runs == runs and number in {None, found.number}

    found = asked(await stage.pod_when(name, as_wanted, **patience))
    assert found is not None
    return found


async def test_a_job_is_asked_for_in_the_write_that_says_it_runs_and_given_up_in_the_one_that_says_idle(
    stage: Stage,
) -> None:
    await stage.join("a1")
    await stage.condition("a1", names.SLURM_RUNNING, "False", reason="Idle")
    assert asked(await stage.pod("a1")) == LockRequest()
    async with stage.followed("a1") as versions:
        job = await stage.sbatch("a1")
        await asks(stage, "a1", JobRun(job), number=1)
        await stage.scancel(job)
        await asks(stage, "a1", number=1)
        await stage.condition("a1", names.SLURM_RUNNING, "False", reason="Idle")
        seen = await versions.up_to_now()
    requests = [request for pod in seen if (request := asked(pod)) is not None]
    assert len(requests) == len(seen)
    running = [holds(pod, names.SLURM_RUNNING) for pod in seen]
    # Nodes and jobs are read at the same time: a read may show the node busy and not yet the job.
    begun = next(number for number, request in enumerate(requests) if request.runs)
    assert sum(running[:begun]) <= 1
    assert not any(request.number for request in requests[:begun])
    assert [bool(request.runs) for request in requests[begun:]] == running[begun:], "they never contradict each other"


async def test_the_number_grows_with_each_run_and_a_run_that_ends_is_no_write(stage: Stage) -> None:
    await stage.join("b1")
    first = await stage.sbatch("b1", *SHARED)
    await asks(stage, "b1", JobRun(first), number=1)
    second = await stage.sbatch("b1", *SHARED)
    await asks(stage, "b1", JobRun(first), JobRun(second), number=2)
    last = await stage.pod("b1")
    async with stage.followed("b1") as versions:
        await stage.scancel(first)
        await stage.eventually(lambda: stage.job_state(first), lambda state: state in {"CANCELLED", ""})
        await asyncio.sleep(3)
        for pod in await versions.up_to_now():
            same = pod.status.conditions == last.status.conditions and pod.metadata.labels == last.metadata.labels
            assert asked(pod) == asked(last) or not same, "only with another write"
            last = pod
        assert asked(last) in {
            LockRequest(2, runs=runs) for runs in ((JobRun(first), JobRun(second)), (JobRun(second),))
        }
    await stage.scancel(second)
    await asks(stage, "b1", number=2)


async def test_a_placeholder_needs_the_strict_lock_and_is_taken_off_as_soon_as_it_ends(stage: Stage) -> None:
    await stage.join("c1")
    plain = await stage.sbatch("c1", *SHARED)
    assert not (await asks(stage, "c1", JobRun(plain))).strict
    placeholder = await stage.sbatch("c1", *SHARED, f"--extra={hooks.PLACEHOLDER}team/web-1")
    found = await asks(stage, "c1", JobRun(plain), JobRun(placeholder))
    assert found.strict
    await stage.scancel(placeholder)
    found = await asks(stage, "c1", JobRun(plain), number=found.number)
    assert found.strict, "not lowered before the node is idle"
    await stage.scancel(plain)
    assert not (await asks(stage, "c1")).strict


async def test_a_job_that_is_requeued_onto_the_same_node_is_another_run(stage: Stage) -> None:
    """L2."""
    await stage.join("d1")
    job = await stage.sbatch("d1", "--requeue")
    first = await asks(stage, "d1", JobRun(job))
    await stage.scontrol("requeue", str(job))
    again = await asks(stage, "d1", JobRun(job, 1), seconds=240)
    assert again.number > first.number
    await stage.scancel(job)


async def test_a_suspended_job_is_still_asked_for(stage: Stage) -> None:
    await stage.join("e1")
    job = await stage.sbatch("e1", "--exclusive")
    await asks(stage, "e1", JobRun(job))
    await stage.scontrol("suspend", str(job))
    await stage.eventually(lambda: stage.job_state(job), lambda state: state == "SUSPENDED")
    await asyncio.sleep(2)
    assert (await asks(stage, "e1", JobRun(job))).runs
    await stage.scancel(job)
    await asks(stage, "e1")


async def test_another_syncer_goes_on_with_the_same_number(stage: Stage) -> None:
    await stage.join("f1")
    job = await stage.sbatch("f1")
    before = await asks(stage, "f1", JobRun(job))
    await stage.kill_syncer()
    await stage.condition("f1", names.SLURM_RUNNING, "True")
    await asyncio.sleep(2)
    assert asked(await stage.pod("f1")) == before
    await stage.scancel(job)
    await asks(stage, "f1", number=before.number)
    job = await stage.sbatch("f1")
    await asks(stage, "f1", JobRun(job), number=before.number + 1)
    await stage.scancel(job)


@pytest.mark.parametrize("damaged", ["{", None, '{"number":1,"jobs":[]}'], ids=["unreadable", "removed", "set back"])
async def test_a_request_that_somebody_has_damaged_is_asked_again_above_the_last_answer(
    stage: Stage, damaged: str | None
) -> None:
    name = {"{": "g1", None: "g2"}.get(damaged, "g3")
    await stage.join(name)
    job = await stage.sbatch(name)
    await asks(stage, name, JobRun(job))
    uid = (await stage.pod(name)).metadata.uid
    answered = {names.LOCK: "locked", names.LOCK_NUMBER: "7", names.LOCK_OWNER: uid}
    await stage.mark(name, {**answered, names.LOCK_REQUEST: damaged})
    await asks(stage, name, JobRun(job), number=8)
    await stage.scancel(job)
    await asks(stage, name, number=8)


async def test_while_slurm_is_away_nothing_is_given_up(stage: Stage) -> None:
    await stage.join("h1")
    job = await stage.sbatch("h1")
    before = await asks(stage, "h1", JobRun(job))
    async with stage.without_slurmctld():
        await stage.syncer_says("Slurm does not answer")
        await stage.kill_syncer()
        await stage.syncer_says("Slurm does not answer")
        assert asked(await stage.pod("h1")) == before
    await stage.condition("h1", names.SLURM_RUNNING, "True")
    assert asked(await stage.pod("h1")) == before
    await stage.scancel(job)
    await asks(stage, "h1", number=before.number)


async def test_tasks_of_an_array_are_runs_of_their_own(stage: Stage) -> None:
    """G10."""
    await stage.join("i1")
    first = await stage.sbatch("i1", *SHARED, "--array=1-2")
    found = await stage.pod_when("i1", lambda pod: len((asked(pod) or LockRequest()).runs) == 2)
    assert (asked(found) or LockRequest()).number >= 1
    await stage.scancel(first)
    await asks(stage, "i1")
