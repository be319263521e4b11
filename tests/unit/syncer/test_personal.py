"""What people ask for, and what they hear."""

from typing import Any

import pytest
from msgspec import json
from tests.unit.syncer.both import drained, pair, pod, row

from sunk.model.contract.drains import Drain, Undrain
from sunk.model.contract.requests import Answer, Order
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase
from sunk.syncer.drains.plan import Groups
from sunk.syncer.drains.requests import Asked, asked
from sunk.syncer.pods import ComputePod


def asking(order: Order | str, **annotations: Any) -> ComputePod:
    text = order if isinstance(order, str) else json.encode(order).decode()
    return pod(order=text, **annotations)


def found(of: ComputePod, on: Node | None = None) -> Asked:
    answer = asked(of, pair(of=of, on=on))
    assert answer is not None
    return answer


DRAIN = Order(id="1", act="drain", reason="alice: bad fan")
UNDRAIN = Order(id="2", act="undrain")


def test_a_drain_is_put_on_also_over_ours() -> None:
    for node in (row(), drained(reason="k8s: cordon"), drained(reason="bob: smoke"), row(base=NodeBase.DOWN)):
        assert found(asking(DRAIN), node).deed == Drain("alice: bad fan")


def test_a_drain_that_stands_there_already_is_done() -> None:
    answer = found(asking(DRAIN), drained(reason="alice: bad fan"))
    assert answer.deed is None
    assert answer.answer.done


@pytest.mark.parametrize("reason", ["", "  ", "k8s: cordon", " k8s:mine"])
def test_a_drain_without_a_reason_or_with_one_that_looks_like_ours_is_refused(reason: str) -> None:
    answer = found(asking(Order(id="1", act="drain", reason=reason)))
    assert answer.deed is None
    assert not answer.answer.done


def test_a_foreign_drain_is_lifted() -> None:
    assert found(asking(UNDRAIN), drained(reason="bob: smoke")).deed == Undrain()


def meaning(reason: str) -> ComputePod:
    return asking(Order(id="2", act="undrain", lifts=reason))


def test_a_drain_that_was_meant_is_lifted_however_long_its_reason() -> None:
    for reason in ("bob: smoke", "", "r" * 5000):
        assert found(meaning(reason[:1024]), drained(reason=reason)).deed == Undrain()


@pytest.mark.parametrize("meant", ["alice: bad fan", "k8s: cordon", ""])
@pytest.mark.parametrize("cordon", [None, "disk"])
def test_a_foreign_drain_that_was_not_meant_stays_and_is_named(meant: str, cordon: str | None) -> None:
    person = meaning(meant) if cordon is None else asking(Order(id="2", act="undrain", lifts=meant), cordon=cordon)
    answer = found(person, drained(reason="bob: smoke"))
    assert answer.deed is None
    assert not answer.answer.done
    assert "bob: smoke" in answer.answer.words


def test_a_drain_of_ours_may_have_another_text_by_now() -> None:
    assert found(meaning("k8s: pod not ready"), drained(reason="k8s: cordon")).deed == Undrain()
    assert found(meaning("alice: bad fan"), row()).answer.done


def test_ours_takes_the_place_of_a_foreign_drain_if_a_cause_holds_and_that_is_said() -> None:
    answer = found(asking(UNDRAIN, cordon="disk"), drained(reason="bob: smoke"))
    assert answer.deed == Drain("k8s: cordon: disk")
    assert answer.answer.done
    assert "k8s: cordon: disk" in answer.answer.words


def test_a_drain_of_ours_would_come_back_so_the_cause_is_named() -> None:
    answer = found(asking(UNDRAIN, cordon="disk"), drained(reason="k8s: cordon: disk"))
    assert answer.deed is None
    assert not answer.answer.done
    assert "k8s: cordon: disk" in answer.answer.words


def test_a_drain_of_ours_without_a_cause_is_lifted() -> None:
    assert found(asking(UNDRAIN), drained(reason="k8s: cordon")).deed == Undrain()


def test_a_node_that_is_down_is_not_undrained() -> None:
    for base in (NodeBase.DOWN, NodeBase.UNKNOWN):
        answer = found(asking(UNDRAIN, cordon="disk"), drained(reason="bob: smoke", base=base))
        assert answer.deed is None
        assert not answer.answer.done


def test_what_is_not_drained_needs_no_undrain() -> None:
    answer = found(asking(UNDRAIN), row(reason="left over"))
    assert answer.deed is None
    assert answer.answer.done


def test_an_order_is_done_once() -> None:
    done = json.encode(Answer(id="1", done=True)).decode()
    other = json.encode(Answer(id="0", done=True)).decode()
    assert asked(asking(DRAIN, order_done=done), pair()) is None
    assert asked(asking(DRAIN, order_done=other), pair()) is not None
    assert asked(asking(DRAIN, order_done="?"), pair()) is not None
    assert asked(pod(), pair()) is None


def test_an_order_that_cannot_be_read_is_refused_once() -> None:
    for text in ("", "{", '{"id":"1","act":"reboot"}', "[]"):
        answer = found(asking(text))
        assert not answer.answer.done
        assert asked(asking(text, order_done=json.encode(answer.answer).decode()), pair()) is None


def test_about_a_node_that_slurm_does_not_know_that_is_said() -> None:
    answer = asked(asking(DRAIN), None)
    assert answer is not None
    assert answer.deed is None
    assert not answer.answer.done


def test_an_order_goes_before_what_is_right_by_itself() -> None:
    groups = Groups()
    person = asking(DRAIN, cordon="disk")
    groups.add("n1", pod=person, pair=pair(of=person), skew=5)
    assert list(groups.drained) == ["alice: bad fan"]
    assert list(groups.rows) == ["n1"]


def test_who_is_told_the_same_shares_a_call() -> None:
    groups = Groups()
    for number in range(5):
        found = pod(f"n{number}", cordon="disk" if number % 2 else "fan", features="a,b")
        groups.add(f"n{number}", pod=found, pair=pair(of=found), skew=5)
    assert groups.drained == {"k8s: cordon: fan": ["n0", "n2", "n4"], "k8s: cordon: disk": ["n1", "n3"]}
    assert groups.featured == {("a", "b"): [f"n{number}" for number in range(5)]}
    assert len(groups.rows) == 5


def test_features_are_written_where_they_differ_in_any_order() -> None:
    groups = Groups()
    for name, has in (("n1", ("b", "a")), ("n2", ("a",)), ("n3", ())):
        found = pod(name, features="a,b")
        groups.add(name, pod=found, pair=pair(of=found, on=row(name, features=has)), skew=5)
    groups.add("n4", pod=pod("n4"), pair=pair(of=pod("n4"), on=row("n4", features=("x",))), skew=5)
    bare = pod("n5", features="")
    groups.add("n5", pod=bare, pair=pair(of=bare, on=row("n5", features=("x",))), skew=5)
    groups.add("n6", pod=bare, pair=pair(of=bare, on=row("n6")), skew=5)
    assert groups.featured == {("a", "b"): ["n2", "n3"], (): ["n5"]}


@pytest.mark.parametrize("order", ["x" * 140_000, '{"id":"' + "i" * 140_000 + '","act":"drain"}', '{"a":' * 10_000])
def test_whatever_is_asked_the_answer_is_short(order: str) -> None:
    answer = found(asking(order))
    assert not answer.answer.done
    assert len(json.encode(answer.answer)) < 2000
    done = json.encode(answer.answer).decode()
    assert asked(asking(order, order_done=done), None) is None, "it is answered once"


def test_a_long_reason_of_slurm_does_not_make_a_long_answer() -> None:
    answer = found(asking(UNDRAIN), drained(reason="r" * 140_000))
    assert answer.deed == Undrain()
    assert len(json.encode(answer.answer)) < 2000
