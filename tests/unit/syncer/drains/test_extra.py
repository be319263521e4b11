"""What Slurm shows of Kubernetes, and the drain that a fresh record has lost."""

import pytest
from tests.unit.syncer.builders import drained, pod, row, snapshot

from sunk.model import names
from sunk.model.contract import drains, keptdrains as kept_texts
from sunk.model.contract.drains import Drain
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase
from sunk.syncer.drains import extra
from sunk.syncer.drains.plan import drain_action
from sunk.syncer.pods import ComputePodCondition

OURS = '{"k8s":{"node":"node-of-n1","pod":"n1","nodeset":"set","conditions":{"Ready":"True"}}}'


def test_it_names_node_pod_and_nodeset_and_what_people_say_of_the_pod() -> None:
    conditions = (
        ComputePodCondition("ContainersReady", "True"),
        ComputePodCondition(names.SLURM_DRAIN, "True"),
        ComputePodCondition(names.HPC_VERIFICATION, "False"),
    )
    assert extra.wanted(snapshot(of=pod("n1", *conditions, lock="pending"))) == {
        "node": "node-of-n1",
        "pod": "n1",
        "nodeset": "set",
        "conditions": {"Ready": "True", names.HPC_VERIFICATION: "False"},
        "lock": "pending",
    }


def test_a_lock_that_nothing_stands_in_the_way_of_is_no_write_to_slurm() -> None:
    for state in ("false", "locked", "locked_strict"):
        assert not extra.differs(snapshot(of=pod(lock=state), on=row(extra=OURS)))
    assert extra.differs(snapshot(of=pod(lock="pending"), on=row(extra=OURS)))


def test_without_a_pod_it_tells_that_there_is_none() -> None:
    assert extra.wanted(snapshot()) == {"node": "node-of-n1", "pod": "", "nodeset": "set", "conditions": {}}


def test_it_is_written_only_where_our_key_differs() -> None:
    assert not extra.differs(snapshot(of=pod(), on=row(extra=OURS)))
    assert not extra.differs(snapshot(of=pod(), on=row(extra=OURS[:-1] + ',"rack":7}')))
    assert extra.differs(snapshot(of=pod(ready=False), on=row(extra=OURS)))
    assert extra.differs(snapshot(of=pod(), on=row(extra='{"k8s":1}')))
    for text in ("", "no JSON", "[]", '{"rack":7}', '"k8s"'):
        assert extra.differs(snapshot(of=pod(), on=row(extra=text)))
        assert not extra.marked(row(extra=text))
    assert extra.marked(row(extra=OURS))


def test_a_kept_drain_is_put_on_a_fresh_record_before_anything_of_ours() -> None:
    kept = pod(ready=False, kept_drain="alice: bad fan", cordon="disk")
    for found in (row(), drained(reason="k8s: pod not ready"), row(reason="left over"), row(extra='{"rack":7}')):
        assert drain_action(snapshot(of=kept, on=found), skew=5) == Drain("alice: bad fan")


def test_a_kept_drain_is_not_put_on_a_record_that_is_ours_or_over_what_somebody_has_written() -> None:
    kept = pod(kept_drain="alice: bad fan")
    down = row(base=NodeBase.DOWN, reason="bob: smoke")
    for found in (row(extra=OURS), drained(reason="bob: smoke"), drained(reason="alice: bad fan"), down):
        assert extra.kept_drain(snapshot(of=kept, on=found)) is None
    for reason in ("", " ", "k8s: cordon"):
        assert extra.kept_drain(snapshot(of=pod(kept_drain=reason))) is None


@pytest.mark.parametrize(
    ("found", "owes"),
    [
        (row(), True),
        (drained(reason=drains.NEW), True),
        (drained(reason="Low RealMemory"), True),
        (row(base=NodeBase.DOWN, reason="bob: smoke"), True),
        (row(base=NodeBase.DOWN, reason="alice: bad fan"), False),
        (row(reason="alice: bad fan"), True),
        (drained(reason="alice: bad fan"), False),
        (drained(reason=" alice:  bad fan"), False),
        (drained(reason="Low RealMemory", extra=OURS), False),
    ],
)
def test_a_record_is_not_marked_before_the_kept_drain_was_on_it(*, found: Node, owes: bool) -> None:
    assert extra.owes(snapshot(of=pod(kept_drain="alice: bad fan"), on=found)) is owes
    assert not extra.owes(snapshot(of=pod(), on=found))


@pytest.mark.parametrize("said", ["x" * 70_000, "bad\0fan", "bad\nfan\n" * 3000, "\ud800 bad fan"])
def test_a_kept_drain_that_is_odd_is_put_on_as_a_short_line(said: str) -> None:
    found = extra.kept_drain(snapshot(of=pod(kept_drain=said)))
    assert found is not None
    assert found.isprintable()
    assert len(found.encode()) <= kept_texts.LONGEST


@pytest.mark.parametrize("said", ["\0", "\0k8s: cordon", " \n"])
def test_a_kept_drain_that_says_nothing_is_none(said: str) -> None:
    assert extra.kept_drain(snapshot(of=pod(kept_drain=said))) is None


def test_a_record_that_was_born_drained_gets_the_kept_drain_without_a_gap() -> None:
    born = drained(reason=drains.NEW)
    assert drain_action(snapshot(of=pod(kept_drain="alice: bad fan"), on=born), skew=5.0) == Drain("alice: bad fan")
