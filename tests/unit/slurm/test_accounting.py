"""What accounting proves about jobs that vanished: the rule alone, and how often it is asked."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace
from tests.unit.slurm.blank import blank
from tests.unit.slurm.scripted import Server, gone, job

from sunk.slurm.accounting import EVERY, LONGEST, MOST, SLURMDBD, Inquiry, proves_end
from sunk.slurm.belief import Lost
from sunk.slurm.mirror import Mirror
from sunk.slurm.records import Accounted, Configuration, Job, Table
from sunk.slurm.states import JobBase, JobFlag

ALICE, BOB = 1001, 1002
SUBMITTED, STARTED, READ, ENDED = 1000, 1010, 2000, 2500
REQUEUED = 1 << 10
PROOF = (JobBase.COMPLETED, JobBase.FAILED, JobBase.TIMEOUT, JobBase.OUT_OF_MEMORY, JobBase.DEADLINE)


def lost(number: int = 7, **fields: object) -> Lost[Job]:
    seen = replace(job(number, user_id=ALICE, submit_time=SUBMITTED), **fields)
    return Lost(seen, when=0.0, until=READ)


def row(number: int = 7, *, state: int = JobBase.COMPLETED, **fields: object) -> Accounted:
    usual = {"user_id": ALICE, "submit_time": SUBMITTED, "start_time": STARTED, "end_time": ENDED}
    return blank(Accounted, **{"id": number, "state_bits": int(state), "ended_by": None} | usual | fields)


@pytest.mark.parametrize("state", PROOF)
def test_an_end_that_slurmctld_told_is_proof(state: JobBase) -> None:
    assert proves_end(lost(), [row(state=state)])


def test_what_slurmdbd_closed_for_a_slurmctld_without_its_state_is_no_proof() -> None:
    assert not proves_end(lost(), [row(state=JobBase.CANCELLED)])
    assert proves_end(lost(), [row(state=JobBase.CANCELLED, ended_by=ALICE)]), "cancelled by a person"
    assert proves_end(lost(), [row(state=JobBase.CANCELLED, ended_by=0, start_time=0)]), "by root, while it waited"


def test_what_a_person_closed_as_a_runaway_job_is_no_proof() -> None:
    assert not proves_end(lost(), [row(start_time=ENDED)])
    assert not proves_end(lost(), [row(end_time=STARTED)])


@pytest.mark.parametrize("state", [each for each in JobBase if each not in PROOF])
@pytest.mark.parametrize("flags", [0, REQUEUED])
def test_no_other_state_is_proof(state: JobBase, flags: int) -> None:
    assert not proves_end(lost(), [row(state=state | flags)])


def test_a_job_that_is_unfinished_or_not_known_or_of_somebody_else_is_not_proven() -> None:
    assert not proves_end(lost(), [])
    assert not proves_end(lost(), [row(end_time=0)])
    assert not proves_end(lost(), [row(8)])
    assert not proves_end(lost(), [row(user_id=BOB)])
    assert not proves_end(lost(), [row(submit_time=SUBMITTED + 1)]), "the number of another job"
    assert not proves_end(lost(), [row(state=JobBase.COMPLETED | JobFlag.COMPLETING.value)])


def test_an_end_before_it_was_last_seen_to_run_is_no_proof() -> None:
    assert not proves_end(lost(), [row(end_time=READ - 1)])
    assert proves_end(lost(), [row(end_time=READ)])


def test_a_number_that_was_given_out_again_changes_nothing_unless_it_may_be_the_same_job() -> None:
    earlier = row(submit_time=10, start_time=11, end_time=12)
    another = row(submit_time=ENDED + 5, user_id=BOB, end_time=0, state=JobBase.RUNNING)
    assert proves_end(lost(), [earlier, row(), another])
    assert not proves_end(lost(), [row(), replace(another, user_id=ALICE)])
    assert not proves_end(lost(), [row(state=REQUEUED), row(submit_time=ENDED)])


def test_tasks_of_an_array_are_proven_each_for_itself() -> None:
    task = row(8, array_id=7, end_time=0, state=JobBase.RUNNING)
    assert proves_end(lost(array_id=7), [row(array_id=7), task])
    assert not proves_end(lost(8, array_id=7), [row(array_id=7), task])
    assert not proves_end(lost(array_id=7, array_tasks="1-9"), [row(array_id=7), task]), "it may be one of those"
    ended = replace(task, end_time=ENDED, state_bits=int(JobBase.COMPLETED))
    assert proves_end(lost(array_id=7, array_tasks="1-9"), [row(array_id=7), ended])


rows = st.builds(
    row,
    st.sampled_from((7, 8)),
    state=st.sampled_from([*map(int, JobBase), REQUEUED]),
    user_id=st.sampled_from((ALICE, BOB)),
    submit_time=st.sampled_from((SUBMITTED - 1, SUBMITTED, SUBMITTED + 1)),
    end_time=st.sampled_from((0, STARTED, READ, ENDED)),
    ended_by=st.sampled_from((None, 0, ALICE)),
)


@given(st.lists(rows, max_size=4))
def test_whatever_else_is_there_an_unfinished_row_of_the_job_is_never_proven_away(found: list[Accounted]) -> None:
    assert not proves_end(lost(), [*found, row(end_time=0, state=JobBase.RUNNING)])
    assert not proves_end(lost(), [*found, row(state=JobBase.NODE_FAIL)])
    assert not proves_end(lost(), [*found, row(state=JobBase.CANCELLED)])


class Slurmdbd:
    """Accounting by a script."""

    def __init__(self, server: Server, *found: Accounted) -> None:
        self.found = found
        self.asked: list[tuple[float, list[int]]] = []
        self.away: Exception | None = None
        self.kind = SLURMDBD
        self._server = server

    async def configuration(self) -> Configuration:
        return blank(Configuration, accounting=self.kind, cluster="c1", boot_time=self._server.boot)

    async def accounted(self, cluster: str, jobs: Collection[int]) -> Table[Accounted]:
        assert cluster == "c1"
        self.asked.append((asyncio.get_running_loop().time(), sorted(jobs)))
        if self.away is not None:
            raise self.away
        return Table(rows=self.found, updated=0)


@asynccontextmanager
async def after_a_loss(count: int, slurmdbd: Slurmdbd, server: Server) -> AsyncIterator[Mirror]:
    """So many jobs are gone after slurmctld was started."""
    server.put(*(job(number, user_id=ALICE, submit_time=SUBMITTED) for number in range(1, count + 1)))
    mirror = Mirror(server)
    async with mirror.running(), asyncio.TaskGroup() as group:
        await mirror.read_after()
        await asyncio.sleep(100)
        assert not slurmdbd.asked, "nothing is missing"
        server.drop(*range(1, count + 1))
        server.restart()
        await mirror.read_after()
        assert mirror.suspicious
        inquiry = group.create_task(Inquiry(slurmdbd, mirror).run())
        yield mirror
        inquiry.cancel()


def ends(count: int) -> Iterator[Accounted]:
    return (row(number, end_time=10_000) for number in range(1, count + 1))


@pytest.mark.looptime
async def test_a_suspicion_ends_when_accounting_has_proven_all_but_the_floor() -> None:
    server = Server()
    slurmdbd = Slurmdbd(server, *ends(4))
    async with after_a_loss(10, slurmdbd, server) as mirror:
        await asyncio.sleep(2 * EVERY)
        assert [each.missing for each in mirror.suspicions] == [{5, 6, 7, 8, 9, 10}]
        slurmdbd.found = tuple(ends(9))
        await asyncio.sleep(3 * EVERY)
        assert not mirror.suspicious
        mirror.require_fresh(within=10)


@pytest.mark.looptime
@pytest.mark.parametrize("away", [gone(), None])
async def test_what_brings_nothing_is_asked_less_and_less_often(away: Exception | None) -> None:
    server = Server()
    slurmdbd = Slurmdbd(server)
    slurmdbd.away = away
    async with after_a_loss(10, slurmdbd, server) as mirror:
        await asyncio.sleep(2000)
        assert mirror.suspicious
        times = [when for when, _ in slurmdbd.asked]
        gaps = [round(later - sooner) for sooner, later in pairwise(times)]
        assert gaps[:5] == [2 * EVERY, 4 * EVERY, 8 * EVERY, 16 * EVERY, LONGEST]
        assert {*gaps[5:]} == {LONGEST}
        server.put(*(job(number, user_id=ALICE) for number in range(20, 30)))
        await mirror.read_after()
        await asyncio.sleep(60)
        server.drop(*range(20, 30))
        await mirror.read_after()
        before = len(slurmdbd.asked)
        await asyncio.sleep(EVERY + 1)
        assert len(slurmdbd.asked) == before + 1, "more is missing"


@pytest.mark.looptime
async def test_many_jobs_are_asked_for_some_at_a_time_and_all_in_turn() -> None:
    server = Server()
    slurmdbd = Slurmdbd(server, *ends(2 * MOST + 10))
    async with after_a_loss(2 * MOST + 10, slurmdbd, server) as mirror:
        await asyncio.sleep(4 * EVERY)
        assert [len(asked) for _, asked in slurmdbd.asked] == [MOST, MOST, 10]
        assert not mirror.suspicious


@pytest.mark.looptime
async def test_without_slurmdbd_nothing_is_asked() -> None:
    server = Server()
    slurmdbd = Slurmdbd(server, *ends(10))
    slurmdbd.kind = ""
    async with after_a_loss(10, slurmdbd, server) as mirror:
        await asyncio.sleep(5 * EVERY)
        assert mirror.suspicious
        assert not slurmdbd.asked


@pytest.mark.looptime
async def test_a_row_that_cannot_be_read_proves_nothing() -> None:
    server = Server()

    class Newer(Slurmdbd):
        async def accounted(self, cluster: str, jobs: Collection[int]) -> Table[Accounted]:
            return replace(await super().accounted(cluster, jobs), unreadable=("3: what is this",))

    slurmdbd = Newer(server, *ends(10))
    async with after_a_loss(10, slurmdbd, server) as mirror:
        await asyncio.sleep(5 * EVERY)
        assert slurmdbd.asked
        assert mirror.suspicious


@pytest.mark.looptime
async def test_a_read_that_had_to_begin_again_does_not_move_when_the_jobs_were_last_seen() -> None:
    server = Server()
    server.put(*(job(number) for number in range(1, 11)))
    mirror = Mirror(server)
    async with mirror.running():
        await mirror.read_after()
        await asyncio.sleep(30)
        await mirror.read_after(whole=True)
        seen = mirror.clock
        server.delay = 2.0

        def restart() -> None:
            server.drop(*range(1, 11))
            server.restart()

        server.meanwhile = restart
        await mirror.read_after()
        assert mirror.clock > seen + 10, "the second attempt is much later than the read's begin"
        assert len(mirror.missing_jobs) == 10
        assert all(seen - 4 <= each.until <= seen + 5 for each in mirror.missing_jobs.values())
