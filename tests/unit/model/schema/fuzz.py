"""Random types, each with values that fit it more often than not.

Left out is what the API server and msgspec are known to see differently, as `sunk.model.schema` says: null where the
type has none (the server drops it), whole numbers written as fractions or of more than 64 bits, doubles in sets.
"""

from typing import Annotated, Any, Literal

import msgspec
from hypothesis import HealthCheck, settings, strategies as st
from msgspec import UNSET, Meta, Struct, UnsetType, field

from sunk.model.schema.pattern import END

Json = Any

unhurried = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
"""On a busy machine an example may take long; that says nothing about the code."""

Typed = tuple[Any, st.SearchStrategy[Json]]

words = st.text("ab1é\n😀", max_size=6)
halves = st.integers(-9, 9).map(lambda number: number + 0.5)
junk = st.one_of(
    st.booleans(),
    st.integers(-40, 40),
    halves,
    words,
    st.lists(words, max_size=1),
    st.dictionaries(words, st.booleans()),
)


def mostly(fitting: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.one_of(fitting, fitting, fitting, junk)


@st.composite
def numbers(draw: st.DrawFn) -> Typed:
    low, high = sorted(draw(st.tuples(st.integers(-20, 20), st.integers(-20, 20))))
    match draw(st.sampled_from(("closed", "open", "multiple", "fraction", "plain"))):
        case "closed":
            return Annotated[int, Meta(ge=low, le=high)], st.integers(low - 1, high + 1)
        case "open":
            return Annotated[int, Meta(gt=low, lt=high)], st.integers(low - 1, high + 1)
        case "multiple":
            return Annotated[int, Meta(multiple_of=high + 21)], st.integers(-2, 2).map(
                lambda times: times * (high + 21)
            )
        case "fraction":
            return Annotated[float, Meta(gt=low, le=high)], st.one_of(halves, st.integers(low - 1, high + 1))
    return int, st.integers(-(2**63), 2**63 - 1)


@st.composite
def texts(draw: st.DrawFn) -> Typed:
    low, high = sorted(draw(st.tuples(st.integers(0, 5), st.integers(0, 5))))
    match draw(st.sampled_from(("length", "pattern", "choice", "either", "plain"))):
        case "length":
            return Annotated[str, Meta(min_length=low, max_length=high)], words
        case "pattern":
            return Annotated[str, Meta(pattern=rf"^[ab]+[^1]?{END}")], words
        case "choice":
            return Literal["a", "b", "é"], st.sampled_from(("a", "b", "é", "ab"))
        case "either":
            text = Annotated[str, Meta(max_length=high)]
            return Annotated[int, Meta(ge=low)] | text, st.one_of(st.integers(-1, 9), words)
    return str, words


plain = st.one_of(
    numbers(),
    texts(),
    st.just((bool, st.booleans())),
    st.just((Literal[1, 2, 3], st.integers(0, 4))),
    st.just((Any, junk)),
    st.just((dict[str, Any], st.dictionaries(words, st.one_of(junk, st.none()), max_size=2))),
)


@st.composite
def many(draw: st.DrawFn, inner: st.SearchStrategy[Typed]) -> Typed:
    kind: Any
    kind, values = draw(inner)
    low, high = sorted(draw(st.tuples(st.integers(0, 3), st.integers(0, 3))))
    bounds = Meta(min_length=low, max_length=high)
    match draw(st.sampled_from(("list", "map", "set", "null"))):
        case "list":
            return Annotated[tuple[kind, ...], bounds], st.lists(mostly(values), max_size=4)
        case "map":
            return Annotated[dict[str, kind], bounds], st.dictionaries(words, mostly(values), max_size=4)
        case "set":
            return Annotated[frozenset[str], bounds], st.lists(words, max_size=4, unique=True)
    # A choice cannot be null for the API server.
    return (kind, values) if kind in {Literal["a", "b", "é"], Literal[1, 2, 3]} else (kind | None, st.none() | values)


def _default(kind: Any, value: Json) -> Any:
    """A default that fits the type, or none."""
    try:
        made = msgspec.convert(value, type=kind)
    except msgspec.ValidationError:
        return msgspec.NODEFAULT
    return field(default_factory=lambda: made) if isinstance(made, dict | list) else made


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Typed]) -> Typed:
    fields, values = [], {}
    for index, (kind, fitting) in enumerate(draw(st.lists(inner, min_size=1, max_size=4))):
        default = _default(kind, draw(fitting)) if draw(st.booleans()) else msgspec.NODEFAULT
        fields.append((f"field_{index}", kind) if default is msgspec.NODEFAULT else (f"field_{index}", kind, default))
        values[f"field{index}"] = mostly(fitting)
    made = msgspec.defstruct(
        "Inner", fields, frozen=True, gc=False, rename="camel", kw_only=True, forbid_unknown_fields=True
    )
    return made, st.fixed_dictionaries({}, optional=values | {"unknown": st.booleans()}) | st.fixed_dictionaries(values)


typed = st.recursive(plain, lambda inner: st.one_of(many(inner), objects(inner)), max_leaves=6)


@st.composite
def specs(draw: st.DrawFn, *, size: int, tries: int) -> tuple[type[Struct], list[Json]]:
    """A struct whose fields are all optional, and values that each try one of them."""
    chosen = draw(st.lists(typed, min_size=size, max_size=size))
    fields = [(f"field_{index}", kind | UnsetType, UNSET) for index, (kind, _) in enumerate(chosen)]
    made = msgspec.defstruct("Spec", fields, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True)
    values = [
        {f"field{index}": value}
        for index, (_, fitting) in enumerate(chosen)
        for value in draw(st.lists(mostly(fitting), min_size=tries, max_size=tries))
    ]
    return made, values
