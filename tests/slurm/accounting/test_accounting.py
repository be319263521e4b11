"""With slurmdbd: accounts, associations and QOS are enforced and shown, and its loss disturbs nobody.

The cluster has the account `lab` with alice, bob and slurm in it, and the QOS `high` for alice and `one` for a job a user.
"""

import asyncio
import signal
from contextlib import suppress

import pytest
from msgspec.structs import replace
from tests.slurm.asking import job, node, until

from sunk.local.slurm.remote import Remote
from sunk.slurm.errors import SlurmError
from sunk.slurm.libslurm.description import JobDescription
from sunk.slurm.libslurm.library import Library
from sunk.slurm.mirror.accounting import SLURMDBD
from sunk.slurm.orders.jobs import JobOrders
from sunk.slurm.orders.nodes import Orders
from sunk.slurm.records import Accounted
from sunk.slurm.states import JobBase

ALICE, STRANGER = 1001, 65532
SLEEP = JobDescription(
    name="sleep",
    script="#!/bin/sh\nsleep 600\n",
    user_id=ALICE,
    group_id=ALICE,
    min_nodes=1,
    memory=10,
    std_out="/dev/null",
)


async def running(library: Library, number: int) -> bool:
    return (await job(library, number)).state.base is JobBase.RUNNING


async def test_a_job_carries_its_account_and_qos(library: Library, jobs: JobOrders) -> None:
    plain, chosen = await jobs.submit(SLEEP), await jobs.submit(replace(SLEEP, account="lab", qos="high"))
    found = [await job(library, each.job) for each in (plain, chosen)]
    assert [(each.account, each.qos) for each in found] == [("lab", "normal"), ("lab", "high")]


async def test_a_user_without_an_association_gets_no_job(jobs: JobOrders) -> None:
    with pytest.raises(SlurmError, match=r"submit job sleep: Invalid account .* \(ESLURM_INVALID_ACCOUNT 2045\)"):
        await jobs.submit(replace(SLEEP, user_id=STRANGER, group_id=STRANGER))


@pytest.mark.parametrize(("wish", "name"), [({"account": "none"}, "ACCOUNT"), ({"qos": "none"}, "QOS")])
async def test_an_account_or_qos_that_is_not_there_is_refused(jobs: JobOrders, wish: dict[str, str], name: str) -> None:
    with pytest.raises(SlurmError, match=f"ESLURM_INVALID_{name}"):
        await jobs.submit(replace(SLEEP, **wish))


async def test_a_limit_of_a_qos_holds_a_job_back_and_says_so(library: Library, jobs: JobOrders) -> None:
    first, second = [await jobs.submit(replace(SLEEP, qos="one")) for _ in range(2)]
    await until(lambda: running(library, first.job))

    async def told() -> bool:
        return (await job(library, second.job)).reason == "QOSMaxJobsPerUserLimit"

    await until(told)
    assert (await job(library, second.job)).state.base is JobBase.PENDING


async def test_gpus_are_counted_among_the_resources(library: Library, jobs: JobOrders) -> None:
    wanted = JobDescription(name="gpus", min_nodes=1, memory=50, tres_per_node="gres/gpu:h100:2")
    given = await jobs.allocate(wanted)
    found = await job(library, given.job)
    assert "gres/gpu=2" in found.tres_allocated
    assert found.account == "lab"
    assert "gres/gpu=2" in (await node(library, "g1")).tres_allocated


async def test_reads_and_orders_go_on_while_slurmdbd_is_away_and_nothing_is_lost(
    library: Library, orders: Orders, jobs: JobOrders, cluster: Remote
) -> None:
    stop = asyncio.Event()

    async def read() -> int:
        count = 0
        while not stop.is_set():
            assert len((await library.all_nodes()).rows) >= 3
            assert await library.jobs() is not None
            count += 1
        return count

    reading = asyncio.create_task(read())
    await asyncio.to_thread(cluster.stop, "accounting", with_signal=signal.SIGKILL)
    given = await jobs.submit(replace(SLEEP, qos="high", script="#!/bin/sh\n"))
    await orders.drain(["n1"], reason="k8s: while slurmdbd is away")
    assert (await node(library, "n1")).state.draining

    async def queued() -> bool:
        return (await library.statistics()).dbd_queue > 0

    await until(queued)
    await asyncio.to_thread(cluster.start, "accounting")

    async def sent() -> bool:
        return (await library.statistics()).dbd_queue == 0

    await until(sent)
    stop.set()
    assert await reading > 10

    async def accounted() -> bool:
        words = ("sacct", "--noheader", "--parsable2", "--allusers", "--format=jobid,account,qos,state")
        rows = await asyncio.to_thread(cluster.run, *words, f"--jobs={given.job}")
        return f"{given.job}|lab|high|COMPLETED" in rows.splitlines()

    await until(accounted)


async def test_what_became_of_jobs_can_be_asked_of_slurmdbd_and_its_loss_is_an_error(
    library: Library, jobs: JobOrders, cluster: Remote
) -> None:
    runs = await library.configuration()
    assert runs.accounting == SLURMDBD
    short, long = [(await jobs.submit(replace(SLEEP, script=script))).job for script in ("#!/bin/sh\n", SLEEP.script)]
    await until(lambda: running(library, long))

    async def rows() -> dict[int, Accounted]:
        return {row.id: row for row in (await library.accounted(runs.cluster, [short, long, 999_999])).rows}

    async def ended() -> bool:
        found = await rows()
        # By its state: of a job that still runs slurmdbd gives the time of the question as its end. And that the long one
        # runs it may hear after the end of the short one.
        both = {short, long} == found.keys()
        return both and found[short].state.ended and found[long].state.base is JobBase.RUNNING

    await until(ended)
    found, known = await rows(), await job(library, long)
    assert found[short].state.base is JobBase.COMPLETED
    assert found[short].end_time >= found[short].start_time > 0
    assert found[long].state.base is JobBase.RUNNING
    assert (found[long].user_id, found[long].submit_time) == (ALICE, known.submit_time)
    assert found[long].ended_by is None
    await jobs.cancel(long)

    async def cancelled() -> bool:
        row = (await rows())[long]
        return row.state.base is JobBase.CANCELLED and row.ended_by is not None

    await until(cancelled)
    await asyncio.to_thread(cluster.stop, "accounting")
    for _ in range(3):
        with pytest.raises(SlurmError):
            await library.accounted(runs.cluster, [short])
    await asyncio.to_thread(cluster.start, "accounting")

    async def back() -> bool:
        with suppress(SlurmError):
            return (await rows())[short] == found[short]
        return False

    await until(back)


async def test_a_database_that_was_killed_comes_back_with_all_it_had(jobs: JobOrders, cluster: Remote) -> None:
    await asyncio.to_thread(cluster.kill, "database")
    assert (await jobs.submit(SLEEP)).job
    await asyncio.to_thread(cluster.start, "database")

    async def known() -> bool:
        words = ("sacctmgr", "--noheader", "--parsable2", "show", "associations", "format=account,user")
        found = await asyncio.to_thread(cluster.attempt, *words)
        return "lab|alice" in found.out.splitlines()

    await until(known)
