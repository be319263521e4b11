"""What libslurm says, as records."""

import asyncio
import gc
import resource
import time
from pathlib import Path

import pytest
from tests.slurm.asking import job, node, until

from sunk.local.slurm.remote import Remote
from sunk.model.hostlist import expand
from sunk.slurm.libslurm.description import JobDescription
from sunk.slurm.libslurm.library import Library
from sunk.slurm.libslurm.loading import load
from sunk.slurm.mirror.reading import NOT_NOW, SELDOM
from sunk.slurm.orders.jobs import JobOrders
from sunk.slurm.states import JobBase, JobFlag, NodeBase, NodeFlag

ALICE = 1001
NODES = {"n1", "n2", "g1"}
STRANGE = ('a "quoted" one', "it's, with; commas", "two\nlines\tand a tab", "Größe 北京 🛰", "\\back\\slash", "=%s[1-3]")


async def test_a_node_says_what_it_is(library: Library) -> None:
    found = await node(library, "g1")
    assert (found.cpus, found.memory, found.gres) == (64, 512000, "gpu:h100:8")
    assert found.features == found.features_active == ("h100", "nvlink")
    assert found.state.base is NodeBase.IDLE
    assert NodeFlag.DYNAMIC_NORM in found.state
    assert found.address
    assert found.version.startswith(".".join(f"{part:02}" for part in library.wire.version[:2]))
    assert found.boot_time <= found.slurmd_start_time
    assert (found.reason, found.extra, found.reservation, found.owner) == ("", "", "", None)


async def test_nothing_changed_is_told_apart_from_nothing(library: Library) -> None:
    async def quiet() -> bool:
        table = await library.jobs()
        assert table is not None
        await asyncio.sleep(1.1)
        return await library.jobs(table.updated) is None

    await until(quiet)
    for read in (library.partitions, library.reservations):
        table = await read()
        assert table is not None


async def test_all_tables_come_in_one_call_with_slurmctlds_clock(library: Library) -> None:
    async def quiet() -> bool:
        began = int(time.time())
        whole = await library.everything({})
        assert whole.nodes is not None
        assert whole.jobs is not None
        assert whole.partitions is not None
        assert {row.name for row in whole.nodes.rows} >= NODES
        assert [row.name for row in whole.partitions.rows] == ["all"]
        await asyncio.sleep(2.1)
        since = {"nodes": whole.nodes.updated, "jobs": whole.jobs.updated, "partitions": whole.partitions.updated}
        later = await library.everything(since)
        assert whole.reservations is not None
        assert later.reservations is not None
        # Whatever else changed or not: the clock is that of the moment.
        assert began <= whole.reservations.updated < later.reservations.updated <= time.time()
        return all(table is None for table in (later.nodes, later.jobs, later.partitions))

    await until(quiet)


async def test_a_table_can_be_left_out(library: Library) -> None:
    found = await library.everything(dict.fromkeys(SELDOM, NOT_NOW))
    assert found.nodes is not None
    assert found.jobs is not None
    assert found.partitions is None
    assert found.reservations is None


async def test_a_restart_shows_in_every_table(library: Library, cluster: Remote) -> None:
    """As long as the clock goes forward: it is why nobody has to ask for the boot time while nothing changes."""
    before = await library.everything({})
    tables = {name: getattr(before, name).updated for name in ("nodes", "jobs", "partitions")}
    await asyncio.sleep(2.1)
    for step in (cluster.stop, cluster.start):
        await asyncio.to_thread(step, "controller")
    after = await library.everything(tables)
    assert None not in (after.nodes, after.jobs, after.partitions)

    async def registered() -> bool:
        rows = (await library.all_nodes()).rows
        return all(row.version for row in rows if row.name in NODES)

    await until(registered)  # what a slurmd says of itself is not among what is saved


async def test_a_job_shows_the_gpus_that_it_holds(library: Library, jobs: JobOrders) -> None:
    wanted = JobDescription(
        name="gpus", user_id=ALICE, group_id=ALICE, min_nodes=1, memory=500, tres_per_node="gres/gpu:h100:2", extra="x"
    )
    first, second = await jobs.allocate(wanted), await jobs.allocate(wanted)
    assert (first.nodes, second.nodes, first.waits) == ("g1", "g1", 0)
    found = await job(library, second.job)
    assert found.state.base is JobBase.RUNNING
    assert (found.nodes, found.name, found.extra, found.batch) == ("g1", "gpus", "x", False)
    assert found.gres_per_node == ("gpu:h100:2(IDX:2-3)",)
    assert found.gpus == ((2, 3),)
    busy = await node(library, "g1")
    assert busy.state.base is NodeBase.MIXED
    assert (busy.cpus_allocated, busy.memory_allocated) == (2, 1000)
    assert "gpu:h100:4" in busy.gres_used
    for each in (first, second):
        assert await jobs.cancel(each.job)


async def test_a_gang_shows_its_gpus_node_by_node(library: Library, jobs: JobOrders) -> None:
    wanted = JobDescription(
        name="gang", min_nodes=2, wanted_nodes="n1,g1", memory=100, user_id=ALICE, group_id=ALICE, whole_nodes=True
    )
    given = await jobs.allocate(wanted)
    found = await job(library, given.job)
    assert found.node_count == 2
    assert dict(zip(expand(found.nodes), found.gpus, strict=True)) == {"g1": tuple(range(8)), "n1": ()}
    await jobs.cancel(given.job)


async def test_a_pending_job_says_why(library: Library, jobs: JobOrders) -> None:
    wanted = JobDescription(
        name="held",
        user_id=ALICE,
        group_id=ALICE,
        min_nodes=1,
        memory=10,
        priority=0,
        time_limit=90,
        script="#!/bin/sh\n",
    )
    given = await jobs.submit(wanted)
    found = await job(library, given.job)
    assert (found.state.base, found.reason, found.priority) == (JobBase.PENDING, "JobHeldUser", 0)
    assert (found.time_limit, found.nodes, found.array_task, found.batch) == (90, "", None, True)
    assert (found.user_id, found.group_id) == (ALICE, ALICE)
    table = await library.jobs()
    assert table is not None
    assert found in table.rows
    assert await jobs.cancel(given.job)
    assert not await jobs.cancel(4_000_000)
    assert await library.job(4_000_000) == ()


async def test_an_array_shows_its_tasks(library: Library, cluster: Remote) -> None:
    number = int(cluster.run("sbatch", "--parsable", "--hold", "--array=1-9%2", "--wrap", "true", uid=ALICE))
    (found,) = await library.job(number)
    assert (found.array_id, found.array_tasks, found.user_id) == (number, "1-9%2", ALICE)
    cluster.run("scancel", str(number))


@pytest.mark.parametrize("text", STRANGE)
async def test_strange_texts_come_through(library: Library, jobs: JobOrders, text: str) -> None:
    wanted = JobDescription(
        name=text, extra=text, comment=text, user_id=ALICE, group_id=ALICE, min_nodes=1, priority=0, memory=10
    )
    given = await jobs.allocate(wanted)
    found = await job(library, given.job)
    assert (found.name, found.extra, found.comment) == (text, text, text)
    await jobs.cancel(given.job)


async def test_bytes_that_are_no_text_spoil_only_themselves(library: Library, cluster: Remote) -> None:
    words = "sbatch --parsable --hold --comment=\"$(printf 'caf\\351 \\355\\240\\200 \\303')\" --wrap true"
    number = int(cluster.run("sh", "-c", words, uid=ALICE))
    found = await job(library, number)
    assert found.comment == "caf\ufffd \ufffd\ufffd\ufffd \ufffd"
    cluster.run("scancel", str(number))


async def test_partitions_and_reservations(library: Library, cluster: Remote) -> None:
    table = await library.partitions()
    assert table is not None
    (found,) = [each for each in table.rows if each.name == "all"]
    assert found.node_count >= 3
    assert found.is_default
    assert found.takes_jobs
    assert found.starts_jobs
    assert (found.max_time, found.max_nodes, found.allow_qos) == (None, None, ())
    words = "reservationname=mine starttime=now+1hour duration=10 users=alice,bob nodes=n1"
    cluster.run("scontrol", "create", *words.split(), on="controller")
    reserved = await library.reservations()
    assert reserved is not None
    (mine,) = reserved.rows
    assert (mine.name, mine.nodes, mine.users) == ("mine", "n1", ("alice", "bob"))
    assert mine.end_time - mine.start_time == 600
    cluster.run("scontrol", "delete", "reservationname=mine", on="controller")


async def test_statistics_count_our_own_reads(library: Library) -> None:
    before = await library.statistics()
    for _ in range(5):
        await library.nodes()
    after = await library.statistics()
    counts = [{each.key: each.count for each in one.rpcs}[2007] for one in (before, after)]
    assert counts[1] - counts[0] >= 5
    assert after.since <= after.now
    assert any(caller.count for caller in after.callers)


async def test_memory_stays_flat(library: Library) -> None:
    async def read(times: int) -> None:
        for _ in range(times):
            await library.nodes()
            await library.jobs()
            await library.partitions()
            await library.reservations()
            await library.statistics()

    await read(100)
    gc.collect()
    before = _resident()
    await read(300)
    gc.collect()
    assert _resident() - before < 2 << 20


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def test_many_readers_at_once(library: Library) -> None:
    tables = await asyncio.gather(*(library.nodes() for _ in range(50)))
    assert {len(table.rows) for table in tables if table} == {len((await library.all_nodes()).rows)}


def test_states_are_those_of_the_header() -> None:
    lib, _ = load()
    spelled = {"RESERVED": "RES", "NOT_RESPONDING": "NO_RESPOND", "MAINTENANCE": "MAINT"}
    for flag in NodeFlag:
        name = f"NODE_STATE_{spelled.get(str(flag.name), flag.name)}"
        assert getattr(lib, name, flag.value) == flag.value, name
    assert [getattr(lib, f"NODE_STATE_{base.name}") for base in NodeBase] == [*NodeBase]
    names = {"COMPLETED": "COMPLETE", "OUT_OF_MEMORY": "OOM"}
    bases = [base for base in JobBase if base is not JobBase.UNKNOWN]  # ours, for what a newer release may say
    assert [getattr(lib, f"JOB_{names.get(base.name, base.name)}") for base in bases] == bases
    for job_flag in (JobFlag.COMPLETING, JobFlag.CONFIGURING, JobFlag.REQUEUE_HOLD, JobFlag.SIGNALING):
        assert getattr(lib, f"JOB_{job_flag.name}") == job_flag.value
