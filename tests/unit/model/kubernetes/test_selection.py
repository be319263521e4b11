"""Required node affinity selects the Nodes that kube-scheduler would take."""

import pytest
from hypothesis import given, strategies as st

from sunk.model.kubernetes.selection import Expression, NodeSelector, Term, fault, integer, matches

LABELS = {"zone": "a", "gpus": "8", "empty": "", "word": "x8"}

expressions = st.builds(
    Expression,
    key=st.sampled_from(["zone", "gpus", "empty", "absent"]),
    operator=st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
    values=st.lists(st.sampled_from(["a", "b", "", "7", "8"]), max_size=2).map(tuple),
)
terms = st.builds(Term, match_expressions=st.lists(expressions, max_size=3).map(tuple))


def selected(*asked: Expression, fields: tuple[Expression, ...] = ()) -> bool:
    selector = NodeSelector((Term(match_expressions=asked, match_fields=fields),))
    return matches(selector, name="node-1", labels=LABELS)


@pytest.mark.parametrize(
    ("key", "operator", "values", "wanted"),
    [
        ("zone", "In", ("b", "a"), True),
        ("zone", "In", ("b",), False),
        ("absent", "In", ("a",), False),
        ("absent", "In", ("",), False),
        ("empty", "In", ("",), True),
        ("zone", "NotIn", ("b",), True),
        ("zone", "NotIn", ("a",), False),
        ("absent", "NotIn", ("a",), True),
        ("empty", "NotIn", ("",), False),
        ("zone", "Exists", (), True),
        ("empty", "Exists", (), True),
        ("absent", "Exists", (), False),
        ("absent", "DoesNotExist", (), True),
        ("empty", "DoesNotExist", (), False),
        ("gpus", "Gt", ("7",), True),
        ("gpus", "Gt", ("8",), False),
        ("gpus", "Gt", ("-1",), True),
        ("gpus", "Lt", ("9",), True),
        ("gpus", "Lt", ("8",), False),
        ("absent", "Gt", ("0",), False),
        ("absent", "Lt", ("9",), False),
        ("word", "Gt", ("0",), False),
        ("word", "Lt", ("9",), False),
        ("empty", "Lt", ("9",), False),
    ],
)
def test_an_expression_matches_as_its_operator_says(
    key: str, operator: str, values: tuple[str, ...], *, wanted: bool
) -> None:
    assert selected(Expression(key, operator, values)) is wanted


@pytest.mark.parametrize(
    "malformed",
    [
        Expression("zone", "In"),
        Expression("zone", "NotIn"),
        Expression("zone", "Exists", ("a",)),
        Expression("absent", "DoesNotExist", ("a",)),
        Expression("gpus", "Gt"),
        Expression("gpus", "Gt", ("1", "2")),
        Expression("gpus", "Gt", ("many",)),
        Expression("gpus", "Gt", ("-9223372036854775809",)),
        Expression("zone", "in", ("a",)),
    ],
)
def test_a_malformed_expression_spoils_its_term_and_no_other(malformed: Expression) -> None:
    good = Term((Expression("zone", "Exists"),))
    spoilt = Term((Expression("zone", "Exists"), malformed))
    assert not matches(NodeSelector((spoilt,)), name="n", labels=LABELS)
    assert matches(NodeSelector((spoilt, good)), name="n", labels=LABELS)
    assert fault(NodeSelector((spoilt, good)))


def test_without_a_selector_every_node_matches() -> None:
    assert matches(None, name="any", labels={})


def test_a_selector_without_terms_matches_nothing() -> None:
    assert not matches(NodeSelector(), name="any", labels=LABELS)


def test_an_empty_term_matches_nothing() -> None:
    assert not matches(NodeSelector((Term(),)), name="any", labels=LABELS)


def test_terms_are_alternatives_and_what_is_in_them_must_hold_together() -> None:
    here, there = Expression("zone", "In", ("a",)), Expression("zone", "In", ("b",))
    assert not selected(here, there)
    assert matches(NodeSelector((Term((there,)), Term((here,)))), name="n", labels=LABELS)


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        (Expression("metadata.name", "In", ("node-1",)), True),
        (Expression("metadata.name", "In", ("node-2",)), False),
        (Expression("metadata.name", "NotIn", ("node-2",)), True),
        (Expression("metadata.name", "NotIn", ("node-1",)), False),
        (Expression("metadata.name", "In", ("node-1", "node-2")), False),
        (Expression("metadata.name", "Exists"), False),
        (Expression("metadata.uid", "In", ("node-1",)), False),
    ],
)
def test_a_field_is_the_name_of_the_node_and_has_one_value(asked: Expression, *, wanted: bool) -> None:
    assert selected(fields=(asked,)) is wanted


def test_fields_and_expressions_of_a_term_hold_together() -> None:
    name = (Expression("metadata.name", "In", ("node-1",)),)
    assert selected(Expression("zone", "Exists"), fields=name)
    assert not selected(Expression("absent", "Exists"), fields=name)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-5", -5),
        ("+5", 5),
        ("007", 7),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("-9223372036854775808", -(2**63)),
        ("", None),
        ("1.0", None),
        (" 1", None),
        ("1_0", None),
        ("٣", None),
        ("0x1", None),
    ],
)
def test_integers_are_those_of_go(text: str, number: int | None) -> None:
    assert integer(text) == number


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (Expression("zone", "In"), "nodeSelectorTerms[0].matchExpressions[1]: In needs at least one value"),
        (Expression("zone", "Gt", ("x",)), "Gt needs one whole number, found ['x']"),
        (Expression("zone", "Is", ("x",)), "unknown operator 'Is': use In, NotIn,"),
        (Expression("zo ne", "Exists"), "'zo ne' is not a label key"),
        (Expression("a/b/c", "Exists"), "'a/b/c' is not a label key"),
        (Expression("zone", "NotIn", ("a b",)), "'a b' is not a valid label value"),
        (Expression("zone", "In", ("a" * 64,)), "is not a valid label value"),
    ],
)
def test_a_fault_is_said_with_its_place(asked: Expression, said: str) -> None:
    assert said in (fault(NodeSelector((Term((Expression("zone", "Exists"), asked)),))) or "")


def test_a_fault_of_a_field_is_said_with_its_place() -> None:
    selector = NodeSelector((Term(match_fields=(Expression("metadata.uid", "In", ("x",)),)),))
    assert fault(selector) == (
        "nodeSelectorTerms[0].matchFields[0]: metadata.name is the only supported field, found 'metadata.uid'"
    )


def test_a_selector_without_terms_is_a_fault_and_an_empty_term_is_none() -> None:
    assert "matches no Node" in (fault(NodeSelector()) or "")
    assert fault(NodeSelector((Term(),))) is None


def test_keys_with_and_without_a_domain_are_good() -> None:
    asked = tuple(Expression(key, "Exists") for key in ("a", "node.coreweave.cloud/state", "x-y.z/A_b.c-9"))
    assert fault(NodeSelector((Term(asked),))) is None


@given(st.lists(terms, max_size=3), st.lists(terms, max_size=3))
def test_a_node_matches_two_lists_of_terms_if_it_matches_one(one: list[Term], other: list[Term]) -> None:
    def found(asked: list[Term]) -> bool:
        return matches(NodeSelector(tuple(asked)), name="n", labels=LABELS)

    assert found(one + other) == (found(one) or found(other))


@given(expressions)
def test_in_and_not_in_are_opposites_unless_malformed(asked: Expression) -> None:
    if asked.values:
        inside, outside = (Expression(asked.key, operator, asked.values) for operator in ("In", "NotIn"))
        assert selected(inside) is not selected(outside)
