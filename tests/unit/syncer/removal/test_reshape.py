"""When a record differs from its Pod."""

from msgspec.structs import replace
from tests.unit.slurm.blank import blank
from tests.unit.syncer.builders import ended, going, member, pod, row

from sunk.slurm.records import Node, Reservation
from sunk.slurm.states import NodeBase, NodeFlag
from sunk.syncer.removal.reshape import (
    KeptShape,
    OtherShape,
    SameShape,
    ShapeSnapshot,
    compare,
    differences,
    may_reshape,
    restart_reason,
)


def sized(*, cpus: int = 8, gres: str = "gpu:h100:8(S:0-1)") -> Node:
    return row("n1", cpus=cpus, memory=4000, gres=gres)


def test_a_record_that_has_what_the_pod_says_does() -> None:
    assert differences("CPUs=8 RealMemory=4000 Gres=gpu:h100:8", sized()) == []
    assert differences("Gres=gpu:h100:8", sized(cpus=4)) == [], "what its Node decides is not compared"
    assert differences("", sized()) == []


def test_a_record_of_another_size_or_with_other_gpus_differs() -> None:
    assert differences("CPUs=4 RealMemory=4000 Gres=gpu:h100:8", sized()) == ["CPUs=4 (Slurm has 8)"]
    assert differences("CPUs=8 RealMemory=9000 Gres=gpu:h100:8", sized()) == ["RealMemory=9000 (Slurm has 4000)"]
    assert differences("CPUs=8 Gres=", sized()) == ["Gres=none (Slurm has gpu:h100:8)"]
    assert differences("CPUs=8 Gres=gpu:h100:8", sized(gres="")) == ["Gres=gpu:h100:8 (Slurm has none)"]


LARGER = ShapeSnapshot("CPUs=16", sized())
MADE = "the Pod of n1 has CPUs=16 (Slurm has 8)"


def test_a_record_that_differs_is_recreated_once() -> None:
    assert compare(ShapeSnapshot("CPUs=8", sized())) == SameShape()
    assert compare(LARGER) == OtherShape()
    assert compare(replace(LARGER, tried="CPUs=12")) == OtherShape(), "that was another shape"
    assert compare(replace(LARGER, tried="CPUs=16")) == KeptShape(
        f"{MADE}. Recreating the Slurm node did not help: compare its definition with slurm.conf and gres.conf"
    )


def test_a_job_keeps_a_record_without_a_word_and_a_person_s_will_is_named() -> None:
    assert compare(replace(LARGER, jobs=(7,))) == KeptShape()
    reserved = blank(Reservation, name="fix", nodes="n1")
    assert compare(replace(LARGER, reservations=(reserved,))) == KeptShape(
        f"{MADE}. Its Slurm node cannot be updated yet: it is in the reservation fix"
    )
    for flags, base in (((NodeFlag.DRAIN,), NodeBase.IDLE), ((), NodeBase.DOWN)):
        node = row("n1", *flags, base=base, reason="alice: bad fan", cpus=8)
        assert compare(replace(LARGER, node=node, jobs=(7,))) == KeptShape(
            f"{MADE}. Its Slurm node will be updated after the drain is lifted (alice: bad fan)"
        ), "also one that is only down"


def test_the_size_of_a_pod_that_goes_does_not_matter() -> None:
    assert may_reshape(pod("n1"), member())
    assert not may_reshape(pod("n1"), None)
    assert not may_reshape(pod("n1"), member(state="leaving"))
    assert not may_reshape(going(pod("n1")), member())
    assert not may_reshape(ended(pod("n1")), member())
    assert not may_reshape(pod("n1", pending_deletion="scale-in"), member())


def test_a_pod_whose_record_was_deleted_is_restarted_unless_slurm_knows_it_again() -> None:
    assert restart_reason(pod("n1"), None) == "its size changed, and its Slurm node was deleted"
    assert restart_reason(pod("n1"), row("n1")) == ""
