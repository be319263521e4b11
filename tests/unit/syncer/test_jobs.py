"""Which jobs hold a node."""

from hypothesis import given, strategies as st
from msgspec.structs import replace
from tests.unit.slurm.blank import blank

from sunk.model.hostlist import expand
from sunk.slurm.mirror.rows import Rows
from sunk.slurm.records import Job
from sunk.slurm.states import JobBase, JobFlag
from sunk.syncer.jobs import JobsByNode


def job(number: int, nodes: str, base: JobBase = JobBase.RUNNING, flags: int = 0) -> Job:
    return blank(Job, id=number, nodes=nodes, state_bits=base.value | flags)


def read(rows: Rows[int, Job], *jobs: Job) -> None:
    """What the mirror does with a table."""
    difference = rows.compare(jobs)
    rows.replace(difference)
    rows.tell(difference)


def made() -> Rows[int, Job]:
    return Rows[int, Job]("jobs", key=lambda row: row.id)


def test_a_job_holds_its_nodes_until_the_last_epilog_is_over() -> None:
    rows = made()
    jobs_by_node = JobsByNode(rows)
    read(rows, job(7, "n[1-2]"))
    assert jobs_by_node.ids("n1") == jobs_by_node.ids("n2") == (7,)
    read(rows, job(7, "n2", JobBase.COMPLETED, JobFlag.COMPLETING.value))
    assert not jobs_by_node.has_jobs("n1")
    assert jobs_by_node.has_jobs("n2")
    read(rows, job(7, "n[1-2]", JobBase.COMPLETED))
    assert not jobs_by_node.has_jobs("n2")


def test_a_run_that_follows_on_the_same_node_unseen_is_told() -> None:
    rows = made()
    jobs_by_node = JobsByNode(rows)
    read(rows, job(7, "n1"))
    told: list[str] = []
    jobs_by_node.subscribe(told.append)
    read(rows, replace(job(7, "n1"), restarts=1))
    assert told == ["n1"]
    assert jobs_by_node.is_on("n1", 7)
    assert not jobs_by_node.is_on("n2", 7)
    read(rows, replace(job(7, "n1"), restarts=1, comment="x"))
    assert told == ["n1"]


def test_a_suspended_job_holds_its_node() -> None:
    rows = made()
    jobs_by_node = JobsByNode(rows)
    read(rows, job(7, "n1", JobBase.SUSPENDED))
    assert jobs_by_node.ids("n1") == (7,)


def test_jobs_that_were_there_before_count() -> None:
    rows = made()
    read(rows, job(7, "n1"))
    assert JobsByNode(rows).ids("n1") == (7,)


def test_a_job_whose_nodes_cannot_be_read_may_be_anywhere() -> None:
    rows = made()
    jobs_by_node = JobsByNode(rows)
    read(rows, job(7, "n[1-"))
    assert jobs_by_node.has_jobs("x")
    read(rows)
    assert not jobs_by_node.has_jobs("x")


def test_who_subscribes_hears_of_nodes_that_were_taken_or_let_go_and_of_no_others() -> None:
    rows = made()
    heard: list[str] = []
    JobsByNode(rows).subscribe(heard.append)
    read(rows, job(7, "n[1-2]"), job(8, "", JobBase.PENDING))
    assert sorted(heard) == ["n1", "n2"]
    heard.clear()
    read(rows, blank(Job, id=7, nodes="n[1-2]", state_bits=JobBase.RUNNING.value, priority=5), job(8, "n2"))
    assert heard == ["n2"]
    heard.clear()
    read(rows, job(8, "n2"))
    assert sorted(heard) == ["n1", "n2"]


places = st.sampled_from(("", "n1", "n[1-3]", "n[2-4],x", "n["))
states = st.sampled_from(
    ((JobBase.PENDING, 0), (JobBase.RUNNING, 0), (JobBase.SUSPENDED, 0), (JobBase.FAILED, JobFlag.COMPLETING.value))
)
tables = st.dictionaries(st.integers(1, 4), st.tuples(places, states), max_size=4)


@given(st.lists(tables, max_size=8))
def test_after_any_history_it_is_what_the_last_table_says(
    history: list[dict[int, tuple[str, tuple[JobBase, int]]]],
) -> None:
    rows = made()
    jobs_by_node = JobsByNode(rows)
    table: dict[int, tuple[str, tuple[JobBase, int]]] = {}
    for table in history:
        read(rows, *(job(number, nodes, *state) for number, (nodes, state) in table.items()))
    for name in ("n1", "n2", "n3", "n4", "x"):
        wanted = {number for number, (nodes, state) in table.items() if _held(name, nodes, *state)}
        assert set(jobs_by_node.ids(name)) == wanted
        assert jobs_by_node.has_jobs(name) is bool(wanted)


def _held(name: str, nodes: str, base: JobBase, flags: int) -> bool:
    if base is JobBase.PENDING and not flags:
        return False
    return nodes == "n[" or name in expand(nodes)
