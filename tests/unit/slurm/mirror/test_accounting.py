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

from sunk.slurm.errors import SlurmError
from sunk.slurm.mirror.accounting import (
    EVERY,
    FRUITLESS,
    LARGEST,
    MOST,
    ROWS,
    SLURMDBD,
    Inquiry,
    expected_rows,
    proves_end,
)
from sunk.slurm.mirror.confidence import MissingRow
from sunk.slurm.mirror.mirror import Mirror
from sunk.slurm.mirror.reading import MirrorPace
from sunk.slurm.records import Accounted, Configuration, Job, Table
from sunk.slurm.states import JobBase, JobFlag

ALICE, BOB = 1001, 1002
SUBMITTED, STARTED, READ, ENDED = 1000, 1010, 2000, 2500
REQUEUED = 1 << 10
SELDOM = MirrorPace(quickest=5.0, slowest=5.0, seldom=5.0)
"""Hours go by here, and what is read meanwhile is of no account."""
PROOF = (JobBase.COMPLETED, JobBase.FAILED, JobBase.TIMEOUT, JobBase.OUT_OF_MEMORY, JobBase.DEADLINE)


def lost(number: int = 7, **fields: object) -> MissingRow[Job]:
    seen = replace(job(number, user_id=ALICE, submit_time=SUBMITTED), **fields)
    return MissingRow(seen, when=0.0, until=READ)


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


def test_tasks_that_ended_before_the_array_was_last_seen_to_wait_say_nothing_about_it() -> None:
    array = lost(array_id=7, array_tasks="5-9")
    before = row(8, array_id=7, end_time=READ - 1)
    assert proves_end(array, [row(array_id=7), before])
    assert proves_end(array, [row(array_id=7), replace(before, state_bits=int(JobBase.NODE_FAIL))])
    assert not proves_end(array, [row(array_id=7), replace(before, state_bits=int(JobBase.NODE_FAIL), end_time=READ)])


@pytest.mark.parametrize("leader", [7, 6])
def test_a_part_of_a_heterogeneous_job_that_failed_may_still_run(leader: int) -> None:
    part = lost(het_id=leader)
    assert not proves_end(part, [row(state=JobBase.FAILED)]), "so closes slurmctld what lost its other parts"
    assert proves_end(part, [row(state=JobBase.COMPLETED)])
    assert proves_end(part, [row(state=JobBase.CANCELLED, ended_by=ALICE)])


@pytest.mark.parametrize(
    ("waiting", "rows"),
    [("1-1000", 1001), ("1-1000%10", 1001), ("0-2000:2", 1002), ("0-999,2000-2999,5000", 2002), ("7", 250)],
)
def test_an_array_brings_as_many_rows_as_it_has_tasks(waiting: str, rows: int) -> None:
    assert expected_rows(job(7, array_id=7, array_tasks=waiting)) == rows


def test_what_is_no_array_brings_a_row_and_an_unknown_number_of_tasks_is_guessed() -> None:
    assert expected_rows(job(7)) == expected_rows(job(8, array_id=7)) == 1
    cut = ",".join(map(str, range(1, 100, 3)))[:60] + "..."
    assert expected_rows(job(7, array_id=7)) == expected_rows(job(7, array_id=7, array_tasks=cut)) == 250


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
        self.since: list[int] = []
        self.away: Exception | None = None
        self.takes = 0.0
        self.kind = SLURMDBD
        self._server = server

    async def configuration(self) -> Configuration:
        return blank(Configuration, accounting=self.kind, cluster="c1", boot_time=self._server.boot)

    @property
    def gaps(self) -> list[int]:
        """Between two questions."""
        times = [when for when, _ in self.asked]
        return [round(later - sooner) for sooner, later in pairwise(times)]

    async def accounted(self, cluster: str, jobs: Collection[int], *, since: int = 0) -> Table[Accounted]:
        assert cluster == "c1"
        self.asked.append((asyncio.get_running_loop().time(), sorted(jobs)))
        self.since.append(since)
        await asyncio.sleep(self.takes)
        if self.away is not None:
            raise self.away
        return Table(rows=self.found, updated=0)


@asynccontextmanager
async def after_a_loss(count: int, slurmdbd: Slurmdbd, server: Server, *, arrays_of: str = "") -> AsyncIterator[Mirror]:
    """So many jobs are gone after slurmctld was started."""
    for number in range(1, count + 1):
        array = number if arrays_of else 0
        server.put(job(number, user_id=ALICE, submit_time=SUBMITTED, array_id=array, array_tasks=arrays_of))
    mirror = Mirror(server, pace=SELDOM)
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
        assert slurmdbd.gaps[:5] == [2 * EVERY, 4 * EVERY, 8 * EVERY, 16 * EVERY, FRUITLESS.longest]
        assert {*slurmdbd.gaps[5:]} == {FRUITLESS.longest}
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
async def test_many_jobs_too_are_asked_for_less_and_less_often_round_by_round() -> None:
    server = Server()
    slurmdbd = Slurmdbd(server)
    async with after_a_loss(MOST + 10, slurmdbd, server) as mirror:
        await asyncio.sleep(1900)
        assert mirror.suspicious
        assert slurmdbd.gaps[:7] == [EVERY, 2 * EVERY, 2 * EVERY, 4 * EVERY, 4 * EVERY, 8 * EVERY, 8 * EVERY]
        assert {*slurmdbd.gaps[9:]} == {FRUITLESS.longest}
        before = len(slurmdbd.gaps)
        slurmdbd.found = tuple(row(number, end_time=10_000) for number in range(MOST + 1, MOST + 5))
        await asyncio.sleep(2 * FRUITLESS.longest + EVERY)
        assert len(mirror.missing_jobs) == MOST + 6
        assert EVERY in slurmdbd.gaps[before:], "it brings something"


@pytest.mark.looptime
@pytest.mark.parametrize("takes", [45, 900])
async def test_an_answer_that_takes_long_is_waited_for_and_heard(takes: float) -> None:
    server = Server()
    slurmdbd = Slurmdbd(server, *ends(2 * MOST))
    slurmdbd.takes = takes
    async with after_a_loss(2 * MOST, slurmdbd, server) as mirror:
        await asyncio.sleep(takes + 3 * EVERY)
        assert len(mirror.missing_jobs) == MOST
        await asyncio.sleep(takes + 3 * EVERY)
        assert not mirror.suspicious
        assert [asked[0] for _, asked in slurmdbd.asked] == [1, MOST + 1], "one question at a time"


@pytest.mark.looptime
async def test_those_that_nobody_answered_for_are_the_next_to_be_asked_for() -> None:
    server = Server()
    slurmdbd = Slurmdbd(server)
    slurmdbd.away = gone()
    async with after_a_loss(MOST + 10, slurmdbd, server):
        await asyncio.sleep(4 * EVERY)
        slurmdbd.away = SlurmError(7000, asked="ask accounting")
        await asyncio.sleep(20 * EVERY)
        assert [asked[0] for _, asked in slurmdbd.asked][:4] == [1, 1, 1, MOST + 1], "a refusal is an answer"


@pytest.mark.looptime
async def test_arrays_are_asked_for_a_few_at_a_time_and_one_that_is_too_large_never() -> None:
    server = Server()
    slurmdbd = Slurmdbd(server)
    async with after_a_loss(12, slurmdbd, server, arrays_of="1-1000"):
        await asyncio.sleep(4 * EVERY)
        assert [asked for _, asked in slurmdbd.asked] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]
    for size, asked in ((ROWS, 1), (LARGEST, 0)):
        slurmdbd = Slurmdbd(server := Server())
        async with after_a_loss(3, slurmdbd, server, arrays_of=f"1-{size}"):
            await asyncio.sleep(1.5 * EVERY)
            assert [len(numbers) for _, numbers in slurmdbd.asked] == [1] * asked


@pytest.mark.looptime
async def test_only_what_ended_since_the_jobs_were_last_seen_is_asked_for() -> None:
    server = Server()
    slurmdbd = Slurmdbd(server)
    async with after_a_loss(10, slurmdbd, server) as mirror:
        await asyncio.sleep(2 * EVERY)
        until = min(each.until for each in mirror.missing_jobs.values())
        assert until - 2 <= slurmdbd.since[0] < until


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
        async def accounted(self, cluster: str, jobs: Collection[int], *, since: int = 0) -> Table[Accounted]:
            return replace(await super().accounted(cluster, jobs, since=since), unreadable=("3: what is this",))

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
