"""What is hard to believe: the rules alone."""

from hypothesis import given, strategies as st
from tests.unit.slurm.scripted import COMPLETED, RUNNING, job

from sunk.slurm.mirror.confidence import (
    FLOOR,
    UNSAVED,
    JobNumbers,
    Losses,
    MissingRow,
    Passage,
    explains_job,
    is_same_job,
)
from sunk.slurm.mirror.rows import Rows
from sunk.slurm.records import Job

PENDING = 0
numbers = st.integers(1, 30)
tables = st.dictionaries(numbers, st.sampled_from((PENDING, RUNNING, COMPLETED)), max_size=30)


def watched(share: float = 0.1) -> tuple[Rows[int, Job], Losses[int, Job]]:
    rows = Rows[int, Job]("jobs", key=lambda row: row.id)
    return rows, Losses(rows, share=share, explains=explains_job, may_go=lambda row: row.state.ended, same=is_same_job)


def read(rows: Rows[int, Job], losses: Losses[int, Job], found: dict[int, int], passage: Passage) -> None:
    difference = rows.compare(job(number, state=state) for number, state in found.items())
    losses.examine(difference, passage)
    rows.replace(difference)


@given(st.lists(tables, min_size=2, max_size=8))
def test_a_suspicion_stands_until_all_but_the_floor_is_back_whatever_else_comes(history: list[dict[int, int]]) -> None:
    rows, losses = watched()
    missing: set[int] = set()
    for turn, found in enumerate(history):
        before = {row.id: row for row in rows.all()}
        held = losses.suspicion
        read(rows, losses, found, Passage(now=turn * 1000.0, gap=1.0, clock=turn * 1000, min_job_age=300))
        lost = {number for number, row in before.items() if number not in found and not row.state.ended}
        missing = ((missing if held else set()) - found.keys()) | lost
        unfinished = sum(not row.state.ended for row in before.values())
        expected = len(missing) > FLOOR and (held is not None or len(missing) > 0.1 * unfinished)
        assert (losses.suspicion is not None) is expected
        if losses.suspicion is not None:
            assert losses.suspicion.missing == missing


@given(st.integers(2, 30), st.integers(0, 40))
def test_newcomers_never_dilute_a_loss(lost: int, newcomers: int) -> None:
    rows, losses = watched()
    read(rows, losses, dict.fromkeys(range(lost), RUNNING), Passage(now=0.0))
    read(rows, losses, dict.fromkeys(range(1000, 1000 + newcomers), RUNNING), Passage(now=1.0, gap=1.0))
    for turn in range(2, 5):
        read(rows, losses, dict.fromkeys(range(1000, 1050 + turn), RUNNING), Passage(now=turn * 500.0, gap=1.0))
        assert losses.suspicion is not None
        assert losses.suspicion.missing == set(range(lost))


def test_what_was_lost_is_told_as_long_as_the_rest_of_it_is_missing() -> None:
    rows, losses = watched()
    read(rows, losses, dict.fromkeys(range(10), RUNNING), Passage(now=0.0))
    read(rows, losses, {}, Passage(now=1.0, gap=1.0))
    losses.explain({number: lost for number, lost in losses.missing.items() if number < 5}, now=2.0)
    assert losses.suspicion is not None
    assert losses.suspicion.missing == set(range(5, 10))
    assert losses.suspicion.lost == set(range(10))
    losses.explain(losses.missing, now=3.0)
    assert losses.suspicion is None


@given(state=st.sampled_from((PENDING, RUNNING)), gap=st.floats(0, 1e4), age=st.integers(0, 100))
def test_a_job_without_a_limit_slips_away_only_unread_or_unsaved(*, state: int, gap: float, age: int) -> None:
    clock = 1_000_000
    row = job(1, state=state, submit_time=clock - int(gap) - age)
    lost = MissingRow(row, when=5.0)
    unread = Passage(now=5.0, gap=gap, clock=clock, min_job_age=300)
    assert explains_job(lost, unread) is (gap + 1 >= 300)
    restarted = Passage(now=5.0, gap=gap, clock=clock, restarted=True, min_job_age=300)
    if age <= UNSAVED:
        assert explains_job(lost, restarted)
    if age > UNSAVED + 3:
        assert not explains_job(lost, restarted)


def test_a_job_whose_limit_is_over_has_ended_whoever_was_away() -> None:
    limited = MissingRow(job(1, time_limit=10, end_time=1000), when=0.0)
    for restarted in (False, True):
        late = Passage(now=900.0, clock=1300, restarted=restarted, min_job_age=300)
        assert explains_job(limited, late)
        assert not explains_job(limited, Passage(now=900.0, clock=1299, restarted=restarted, min_job_age=300))


def test_a_slurm_that_forgets_no_job_has_no_reason_to() -> None:
    limited = MissingRow(job(1, time_limit=10, end_time=1000), when=0.0)
    assert not explains_job(limited, Passage(now=0.0, gap=1e6, clock=2000, min_job_age=0))


def test_a_number_that_was_given_to_another_job_is_not_the_job_that_is_back() -> None:
    first = job(7, user_id=1001, submit_time=100)
    assert is_same_job(first, job(7, user_id=1001, submit_time=100, state=COMPLETED))
    assert is_same_job(first, job(7, user_id=1001, submit_time=500, restarts=1)), "requeued"
    assert not is_same_job(first, job(7, user_id=1001, submit_time=500))
    assert not is_same_job(first, job(7, user_id=1002, submit_time=100))


def tasks(*numbers: int, array: int = 10) -> list[Job]:
    """Tasks of an array that was submitted long ago, as they have been split off."""
    return [job(number, array_id=array, submit_time=100) for number in numbers]


def read_jobs(rows: Rows[int, Job], losses: Losses[int, Job], found: list[Job], passage: Passage) -> None:
    difference = rows.compare(found)
    losses.examine(difference, passage)
    rows.replace(difference)


@given(age=st.integers(0, 100))
def test_tasks_that_were_split_off_a_moment_before_a_kill_may_be_forgotten(age: int) -> None:
    rows, losses = watched()
    read_jobs(rows, losses, tasks(10), Passage(now=0.0, clock=1000, min_job_age=300))
    read_jobs(rows, losses, tasks(10, *range(11, 30)), Passage(now=100.0, gap=1.0, clock=1100, min_job_age=300))
    for turn in range(1, age + 1):  # others come and go
        found = [*tasks(10, *range(11, 30)), job(500 + turn, state=COMPLETED)]
        read_jobs(rows, losses, found, Passage(now=100.0 + turn, gap=1.0, clock=1100 + turn, min_job_age=300))
    killed = Passage(now=101.0 + age, gap=1.0, clock=1101 + age, restarted=True, boot=1101 + age, min_job_age=300)
    read_jobs(rows, losses, tasks(10), killed)
    if age <= UNSAVED:
        assert losses.suspicion is None
    if age > UNSAVED + 3:
        assert losses.suspicion is not None


@given(age=st.integers(0, 100))
def test_numbers_of_tasks_that_were_split_off_a_moment_before_a_kill_are_given_again(age: int) -> None:
    numbers = JobNumbers()
    numbers.examine(tasks(10), Passage(now=0.0, clock=1000))
    numbers.examine(tasks(11, 12, 13), Passage(now=100.0, gap=1.0, clock=1100))
    boot = 1101 + age
    numbers.examine([], Passage(now=101.0 + age, gap=1.0, clock=boot, restarted=True, boot=boot))
    numbers.examine([job(11, submit_time=boot + 1)], Passage(now=103.0 + age, gap=1.0, clock=boot + 2, boot=boot))
    if age <= UNSAVED:
        assert numbers.suspicion is None
    if age > UNSAVED + 3:
        assert numbers.suspicion is not None


def test_numbers_that_were_forgotten_say_nothing_at_the_next_start_either() -> None:
    numbers = JobNumbers()
    numbers.examine([job(10, submit_time=100)], Passage(now=0.0, clock=1000))
    numbers.examine(tasks(*range(11, 20)), Passage(now=100.0, gap=1.0, clock=1100))
    for boot, number in ((1105, 11), (1200, 12)):
        numbers.examine([], Passage(now=boot - 1000.0, gap=1.0, clock=boot, restarted=True, boot=boot))
        later = Passage(now=boot - 998.0, gap=1.0, clock=boot + 2, boot=boot)
        numbers.examine([job(number, submit_time=boot + 1)], later)
        assert numbers.suspicion is None
