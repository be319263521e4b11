"""What people ask for, and what they hear."""

from typing import Any

import pytest
from msgspec import json
from tests.unit.syncer.builders import drained, pod, row, snapshot

from sunk.model.contract import hooks
from sunk.model.contract.drains import Drain, Undrain
from sunk.model.contract.requests import Answer, Order
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase
from sunk.syncer.drains.plan import Actions
from sunk.syncer.drains.requests import RequestDecision, decide
from sunk.syncer.pods import ComputePod


def asking(order: Order | str, **annotations: Any) -> ComputePod:
    text = order if isinstance(order, str) else json.encode(order).decode()
    return pod(order=text, **annotations)


def found(of: ComputePod, on: Node | None = None) -> RequestDecision:
    answer = decide(of, snapshot(of=of, on=on))
    assert answer is not None
    return answer


DRAIN = Order(id="1", act="drain", reason="alice: bad fan")
UNDRAIN = Order(id="2", act="undrain")


def test_a_drain_is_put_on_also_over_ours() -> None:
    for node in (row(), drained(reason="k8s: cordon"), drained(reason="bob: smoke"), row(base=NodeBase.DOWN)):
        assert found(asking(DRAIN), node).action == Drain("alice: bad fan")


def test_a_drain_that_stands_there_already_is_done() -> None:
    answer = found(asking(DRAIN), drained(reason="alice: bad fan"))
    assert answer.action is None
    assert answer.answer.done


@pytest.mark.parametrize("reason", ["", "  ", "k8s: cordon", " k8s:mine"])
def test_a_drain_without_a_reason_or_with_one_that_looks_like_ours_is_refused(reason: str) -> None:
    answer = found(asking(Order(id="1", act="drain", reason=reason)))
    assert answer.action is None
    assert not answer.answer.done


def test_a_foreign_drain_is_lifted() -> None:
    assert found(asking(UNDRAIN), drained(reason="bob: smoke")).action == Undrain()


def meaning(reason: str) -> ComputePod:
    return asking(Order(id="2", act="undrain", lifts=reason))


def test_a_drain_that_was_meant_is_lifted_however_long_its_reason() -> None:
    for reason in ("bob: smoke", "", "r" * 5000):
        assert found(meaning(reason[:1024]), drained(reason=reason)).action == Undrain()


@pytest.mark.parametrize("meant", ["alice: bad fan", "k8s: cordon", ""])
@pytest.mark.parametrize("cordon", [None, "disk"])
def test_a_foreign_drain_that_was_not_meant_stays_and_is_named(meant: str, cordon: str | None) -> None:
    person = meaning(meant) if cordon is None else asking(Order(id="2", act="undrain", lifts=meant), cordon=cordon)
    answer = found(person, drained(reason="bob: smoke"))
    assert answer.action is None
    assert not answer.answer.done
    assert "bob: smoke" in answer.answer.words


def test_a_drain_of_ours_may_have_another_text_by_now() -> None:
    assert found(meaning("k8s: pod not ready"), drained(reason="k8s: cordon")).action == Undrain()
    assert found(meaning("alice: bad fan"), row()).answer.done


def test_ours_takes_the_place_of_a_foreign_drain_if_a_cause_holds_and_that_is_said() -> None:
    answer = found(asking(UNDRAIN, cordon="disk"), drained(reason="bob: smoke"))
    assert answer.action == Drain("k8s: cordon: disk")
    assert answer.answer.done
    assert "k8s: cordon: disk" in answer.answer.words


def test_a_drain_of_ours_would_come_back_so_the_cause_is_named() -> None:
    answer = found(asking(UNDRAIN, cordon="disk"), drained(reason="k8s: cordon: disk"))
    assert answer.action is None
    assert not answer.answer.done
    assert "k8s: cordon: disk" in answer.answer.words


def test_a_drain_of_ours_without_a_cause_is_lifted() -> None:
    assert found(asking(UNDRAIN), drained(reason="k8s: cordon")).action == Undrain()


def test_a_drain_of_a_prolog_that_reached_no_syncer_is_a_person_s_to_lift() -> None:
    assert found(asking(UNDRAIN), drained(reason=hooks.UNREACHED)).action == Undrain()
    assert found(asking(UNDRAIN, cordon="disk"), drained(reason=f"{hooks.UNREACHED}: cordon: disk")).action is None


def test_a_node_that_is_down_is_not_undrained() -> None:
    for base in (NodeBase.DOWN, NodeBase.UNKNOWN):
        answer = found(asking(UNDRAIN, cordon="disk"), drained(reason="bob: smoke", base=base))
        assert answer.action is None
        assert not answer.answer.done


def test_what_is_not_drained_needs_no_undrain() -> None:
    answer = found(asking(UNDRAIN), row(reason="left over"))
    assert answer.action is None
    assert answer.answer.done


def test_an_order_is_done_once() -> None:
    done = json.encode(Answer(id="1", done=True)).decode()
    other = json.encode(Answer(id="0", done=True)).decode()
    assert decide(asking(DRAIN, order_done=done), snapshot()) is None
    assert decide(asking(DRAIN, order_done=other), snapshot()) is not None
    assert decide(asking(DRAIN, order_done="?"), snapshot()) is not None
    assert decide(pod(), snapshot()) is None


def test_an_order_that_cannot_be_read_is_refused_once() -> None:
    for text in ("", "{", '{"id":"1","act":"reboot"}', "[]"):
        answer = found(asking(text))
        assert not answer.answer.done
        assert decide(asking(text, order_done=json.encode(answer.answer).decode()), snapshot()) is None


def test_about_a_node_that_slurm_does_not_know_that_is_said() -> None:
    answer = decide(asking(DRAIN), None)
    assert answer is not None
    assert answer.action is None
    assert not answer.answer.done


def test_an_order_goes_before_what_is_right_by_itself() -> None:
    actions = Actions()
    person = asking(DRAIN, cordon="disk")
    actions.add("n1", pod=person, snapshot=snapshot(of=person), skew=5)
    assert list(actions.drain) == ["alice: bad fan"]
    assert list(actions.rows) == ["n1"]


def test_who_is_told_the_same_shares_a_call() -> None:
    actions = Actions()
    for number in range(5):
        found = pod(f"n{number}", cordon="disk" if number % 2 else "fan", features="a,b")
        actions.add(f"n{number}", pod=found, snapshot=snapshot(of=found), skew=5)
    assert actions.drain == {"k8s: cordon: fan": ["n0", "n2", "n4"], "k8s: cordon: disk": ["n1", "n3"]}
    assert actions.features == {("a", "b"): [f"n{number}" for number in range(5)]}
    assert len(actions.rows) == 5


def test_features_are_written_where_they_differ_in_any_order() -> None:
    actions = Actions()
    for name, has in (("n1", ("b", "a")), ("n2", ("a",)), ("n3", ())):
        found = pod(name, features="a,b")
        actions.add(name, pod=found, snapshot=snapshot(of=found, on=row(name, features=has)), skew=5)
    actions.add("n4", pod=pod("n4"), snapshot=snapshot(of=pod("n4"), on=row("n4", features=("x",))), skew=5)
    bare = pod("n5", features="")
    actions.add("n5", pod=bare, snapshot=snapshot(of=bare, on=row("n5", features=("x",))), skew=5)
    actions.add("n6", pod=bare, snapshot=snapshot(of=bare, on=row("n6")), skew=5)
    assert actions.features == {("a", "b"): ["n2", "n3"], (): ["n5"]}


@pytest.mark.parametrize("order", ["x" * 140_000, '{"id":"' + "i" * 140_000 + '","act":"drain"}', '{"a":' * 10_000])
def test_whatever_is_asked_the_answer_is_short(order: str) -> None:
    answer = found(asking(order))
    assert not answer.answer.done
    assert len(json.encode(answer.answer)) < 2000
    done = json.encode(answer.answer).decode()
    assert decide(asking(order, order_done=done), None) is None, "it is answered once"


def test_a_long_reason_of_slurm_does_not_make_a_long_answer() -> None:
    answer = found(asking(UNDRAIN), drained(reason="r" * 140_000))
    assert answer.action == Undrain()
    assert len(json.encode(answer.answer)) < 2000
