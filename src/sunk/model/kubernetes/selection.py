"""Required node affinity: which Nodes a Pod may be on, decided exactly as kube-scheduler does.

A selector is a choice of terms: one that matches is enough. In a term everything has to match, its expressions (about
labels) and its fields (about the Node's name, which is all that Kubernetes offers there). What one would not guess:

- An empty term matches nothing, and so does a selector without terms. No selector at all matches every Node.
- `NotIn` matches a Node that lacks the label; `Gt` and `Lt` do not, nor one whose label is no 64-bit integer.
- An expression that is malformed (`In` without values, `Gt` of a word) spoils its term, and no other.

`fault` says what is wrong with a selector, as the API server would upon creating the Pod. Keys and values that no label
can have are found there alone: `matches` takes them as texts like others, since it is asked for every Node.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,64}")
_LARGEST: Final = 2**63
_NAME: Final = "metadata.name"
_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_KEY: Final = re.compile(
    r"(?=[^/]{1,253}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?|[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)


class Expression(Struct, frozen=True, gc=False, omit_defaults=True):
    """One thing asked of a Node."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class Term(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Things asked of a Node together."""

    match_expressions: tuple[Expression, ...] = ()
    match_fields: tuple[Expression, ...] = ()


class NodeSelector(Struct, frozen=True, gc=False, rename="camel"):
    """Terms, of which one has to match."""

    node_selector_terms: tuple[Term, ...] = ()


def matches(selector: NodeSelector | None, *, name: str, labels: Mapping[str, str]) -> bool:
    """Whether a Node of this name and these labels is one of those selected."""
    if selector is None:
        return True
    for term in selector.node_selector_terms:
        if (
            (term.match_expressions or term.match_fields)
            and all(_label_matches(one, labels) for one in term.match_expressions)
            and all(_field_matches(one, name) for one in term.match_fields)
        ):
            return True
    return False


def _label_matches(asked: Expression, labels: Mapping[str, str]) -> bool:
    value = labels.get(asked.key)
    match asked.operator:
        case "In":
            return value is not None and value in asked.values
        case "NotIn":
            return bool(asked.values) and value not in asked.values
        case "Exists":
            return value is not None and not asked.values
        case "DoesNotExist":
            return value is None and not asked.values
        case "Gt" | "Lt":
            return value is not None and _compares(asked, value)
        case _:
            return False


def _compares(asked: Expression, value: str) -> bool:
    if len(asked.values) != 1:
        return False
    found, bound = integer(value), integer(asked.values[0])
    if found is None or bound is None:
        return False
    return found > bound if asked.operator == "Gt" else found < bound


def _field_matches(asked: Expression, name: str) -> bool:
    """Compare with one value only: that is all that kube-scheduler takes for fields."""
    if len(asked.values) != 1 or asked.key != _NAME:
        return False
    match asked.operator:
        case "In":
            return name == asked.values[0]
        case "NotIn":
            return name != asked.values[0]
        case _:
            return False


def integer(text: str) -> int | None:
    """A whole number of 64 bits as Go reads it; none if it is not one."""
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -_LARGEST <= number < _LARGEST else None


# What is wrong with a selector


def fault(selector: NodeSelector) -> str | None:
    """The first thing that Kubernetes would not take, with the place where it stands; none if all is well."""
    if not selector.node_selector_terms:
        return "nodeSelectorTerms is empty, which matches no Node: add a term, or omit the affinity"
    return next(_faults(selector), None)


def _faults(selector: NodeSelector) -> Iterator[str]:
    for place, term in enumerate(selector.node_selector_terms):
        for index, one in enumerate(term.match_expressions):
            if wrong := _wrong_expression(one):
                yield f"nodeSelectorTerms[{place}].matchExpressions[{index}]: {wrong}"
        for index, one in enumerate(term.match_fields):
            if wrong := _wrong_field(one):
                yield f"nodeSelectorTerms[{place}].matchFields[{index}]: {wrong}"


def _wrong_expression(asked: Expression) -> str | None:
    if _KEY.fullmatch(asked.key) is None:
        return f"{asked.key!r} is not a label key"
    if wrong := next((value for value in asked.values if _VALUE.fullmatch(value) is None), None):
        return f"{wrong!r} is not a valid label value"
    match asked.operator:
        case "In" | "NotIn":
            return None if asked.values else f"{asked.operator} needs at least one value"
        case "Exists" | "DoesNotExist":
            return f"{asked.operator} takes no values" if asked.values else None
        case "Gt" | "Lt":
            good = len(asked.values) == 1 and integer(asked.values[0]) is not None
            return None if good else f"{asked.operator} needs one whole number, found {list(asked.values)}"
        case other:
            return f"unknown operator {other!r}: use In, NotIn, Exists, DoesNotExist, Gt or Lt"


def _wrong_field(asked: Expression) -> str | None:
    if asked.key != _NAME:
        return f"{_NAME} is the only supported field, found {asked.key!r}"
    if asked.operator not in {"In", "NotIn"}:
        return f"a field takes In or NotIn, found {asked.operator!r}"
    return None if len(asked.values) == 1 else f"a field takes one value, found {list(asked.values)}"
