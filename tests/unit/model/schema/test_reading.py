from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal

import pytest
from hypothesis import given
from msgspec import Meta, Struct, defstruct
from tests.unit.model.schema.fuzz import specs, unhurried
from tests.unit.model.schema.samples import GangSpec, Range

from sunk.model.schema.reading import read
from sunk.model.schema.shape import Inexpressible, Place
from sunk.model.schema.structural import structural
from sunk.model.schema.vocabulary import ATOMIC, UNIQUE, keyed, rule


def _schema(kind: type[Struct]) -> dict[str, Any]:
    return structural(read(kind), at=Place(kind.__name__))


def _field(kind: Any, *default: Any) -> dict[str, Any]:
    made: dict[str, Any] = _schema(defstruct("Made", [("one", kind, *default)]))
    return made["properties"]["one"]  # type: ignore[no-any-return]


class Tree(Struct):
    children: tuple["Tree", ...] = ()


class Tagged(Struct, tag="a"):
    pass


class Plain(Struct, frozen=True):
    x: int = 0


class Ruled(Struct):
    RULES: ClassVar = (rule("self.x > 0", "x must be positive"),)

    x: int = 1


class Quiet(Struct, omit_defaults=True, frozen=True):
    RULES: ClassVar = (rule("self.x < self.y.least", "x must be below"),)

    x: int = 0
    y: Range = Range()


REFUSED: dict[str, tuple[Any, str]] = {
    "a union of scalars": (bool | str, "bool | str"),
    "a union with a struct": (Plain | str, "Plain | str"),
    "a list or one of its items": (str | tuple[str, ...], "str | tuple[str, ...]"),
    "a tuple of fixed length": (tuple[int, str], "write tuple[X, ...]"),
    "a timedelta": (timedelta, "use Duration"),
    "a decimal": (Decimal, "use Quantity"),
    "bytes": (bytes, "no schema has a word for bytes"),
    "mixed choices": (Literal["a", 1], "strings only"),
    "a choice that may be null": (Literal["a"] | None, "no null where there is a choice"),
    "a choice in a list that may be null": (tuple[Literal["a"] | None, ...], "Made.one[]"),
    "a struct that holds itself": (Tree, "Made.one.children[]: Tree holds itself"),
    "a tagged struct": (Tagged, "leave array_like and tag out"),
    "names with a pattern": (dict[Annotated[str, Meta(pattern="^a")], int], "self.all("),
    "a pattern of Python only": (Annotated[str, Meta(pattern="a$")], r"write \Z"),
    "a rule in a list without a bound": (tuple[Ruled, ...], "give Made.one a max_length"),
    "a rule in a map in a list without a bound": (
        tuple[Annotated[dict[str, Ruled], Meta(max_length=3)], ...],
        'Made.one[]{}: the rule "self.x > 0"',
    ),
    "a rule that compares with null": (
        Annotated[str, rule("self == null || self == ''", "x")],
        "write has(self.field)",
    ),
    "a key that no item has": (Annotated[tuple[Plain, ...], keyed("name")], 'no key "name"'),
    "unique structs": (Annotated[tuple[Plain, ...], UNIQUE], 'x-kubernetes-list-type" means nothing here'),
    "an atomic number": (Annotated[int, ATOMIC], "means nothing here"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_no_schema_can_say_is_refused_with_its_path(what: str) -> None:
    kind, said = REFUSED[what]
    with pytest.raises(Inexpressible) as refused:
        _field(kind)
    assert str(refused.value).startswith("Made.one")
    assert said in str(refused.value)


def test_a_field_without_a_default_is_required() -> None:
    assert _schema(defstruct("Made", [("one", int), ("two", int, 2)]))["required"] == ["one"]


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        (int | None, (None,), {"type": "integer"}),
        (int | None, (5,), {"type": "integer", "nullable": True, "default": 5}),
        (int | None, (), {"type": "integer", "nullable": True}),
        (tuple[int | None, ...], (), {"type": "array", "items": {"type": "integer", "nullable": True}}),
    ],
)
def test_null_is_a_value_only_where_it_differs_from_absence(
    kind: Any, default: tuple[Any, ...], expected: dict[str, Any]
) -> None:
    assert _field(kind, *default) == expected


def test_bounds_that_do_not_belong_to_the_range_are_said_as_openapi_3_0_does() -> None:
    assert _field(Annotated[int, Meta(gt=3, lt=9)]) == {"type": "integer", "minimum": 4, "maximum": 8}
    assert _field(Annotated[float, Meta(gt=3)]) == {"type": "number", "minimum": 3, "exclusiveMinimum": True}


def test_several_rules_on_one_field_all_count() -> None:
    kind = Annotated[
        int, rule("self > 0", "must be positive"), rule("self < 9", "must be small", reason="FieldValueForbidden")
    ]
    assert [one["rule"] for one in _field(kind)["x-kubernetes-validations"]] == ["self > 0", "self < 9"]


def test_a_rule_may_name_null_in_a_text_and_ask_for_the_type_of_null() -> None:
    kind = Annotated[str, rule("self != 'null'", "x"), rule("type(self) != null_type", "x")]
    assert len(_field(kind)["x-kubernetes-validations"]) == 2


def test_a_default_says_only_where_it_differs() -> None:
    outer = defstruct("Outer", [("inner", Plain, Plain(x=0)), ("x", int, 3)], frozen=True)
    assert _field(outer, outer(x=4))["default"] == {"x": 4}
    assert _field(outer, outer(inner=Plain(x=2)))["default"] == {"inner": {"x": 2}}


def test_a_default_says_all_that_a_rule_can_see() -> None:
    assert _field(Quiet, Quiet())["default"] == {"x": 0, "y": {"least": 1, "most": 9}}


def test_the_string_below_a_field_describes_it() -> None:
    properties = _schema(GangSpec)["properties"]
    assert properties["replicas"]["description"] == "How many. Written over two lines."
    assert properties["address"]["description"] == "Where it listens."
    assert properties["members"]["items"]["properties"]["name"]["description"] == "What it is called."


def test_a_docstring_describes_what_no_field_describes() -> None:
    assert _schema(GangSpec)["description"] == "What the gang should be.\n\nIt may take some lines to say."
    assert _schema(GangSpec)["properties"]["colour"]["description"] == "How it is painted."


@unhurried
@given(case=specs(size=3, tries=0))
def test_every_schema_is_structural(case: tuple[type[Struct], list[Any]]) -> None:
    _each_schema(_schema(case[0]), check=_assert_structural)


def _each_schema(schema: dict[str, Any], *, check: Callable[[dict[str, Any]], None]) -> None:
    check(schema)
    inner = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    for one in inner:
        if one is not None:
            _each_schema(one, check=check)


def _assert_structural(schema: dict[str, Any]) -> None:
    typeless = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    assert "type" in schema or typeless
    assert not {"anyOf", "oneOf", "$ref", "$defs", "const"} & set(schema)
    assert "properties" not in schema or "additionalProperties" not in schema
    assert schema.get("type") != "array" or "items" in schema
