"""What keeps Slurm's record of a node."""

from tests.unit.slurm.blank import blank
from tests.unit.syncer.builders import drained, row

from sunk.slurm.records import Reservation
from sunk.slurm.states import NodeFlag
from sunk.syncer.removal.blockers import blocker, has_personal_drain

SPECIFIC, ALL = 1 << 15, 1 << 19


def reservation(nodes: str, *, flags: int = SPECIFIC) -> Reservation:
    return blank(Reservation, name="maintenance", nodes=nodes, flags=flags)


def test_jobs_and_reservations_keep_a_record() -> None:
    assert blocker(row("n1"), jobs=(), reservations=()) == ""
    assert blocker(row("n1"), jobs=(7,), reservations=()) == "job 7 is on it"
    assert blocker(row("n1"), jobs=(9, 7), reservations=()) == "jobs 7, 9 are on it"
    assert "COMPLETING" in blocker(row("n1", NodeFlag.COMPLETING), jobs=(), reservations=())
    reserved = blocker(row("n2"), jobs=(), reservations=(reservation("n[1-3]"),))
    assert reserved == "it is in the reservation maintenance"
    assert blocker(row("n4"), jobs=(), reservations=(reservation("n[1-3]"),)) == ""


def test_a_reservation_of_whichever_nodes_there_are_keeps_none() -> None:
    assert blocker(row("n2"), jobs=(), reservations=(reservation("n[1-3]", flags=ALL),)) == ""


def test_somebody_s_drain_keeps_the_record_and_slurm_s_own_for_the_difference_does_not() -> None:
    assert has_personal_drain(drained("n1", reason="bad fan"))
    assert has_personal_drain(row("n1", NodeFlag.DRAIN, NodeFlag.INVALID_REG, reason="bad fan"))
    assert not has_personal_drain(
        row("n1", NodeFlag.DRAIN, NodeFlag.INVALID_REG, reason="Low RealMemory (reported:1 < 2)")
    )
    assert not has_personal_drain(drained("n1", reason="k8s: pod terminated"))
    assert not has_personal_drain(row("n1"))
