from typing import Annotated, Any, Literal

import msgspec
from hypothesis import given
from msgspec import Meta, Struct
from tests.unit.model.schema.fuzz import specs, unhurried
from tests.unit.model.schema.judge import fits
from tests.unit.model.schema.samples import GangSpec, Range

from sunk.model.schema.reading import read
from sunk.model.schema.shape import Place
from sunk.model.schema.structural import structural
from sunk.model.schema.values import values_schema
from sunk.model.schema.vocabulary import OR_EMPTY, OR_NULL

SCHEMA = values_schema(GangSpec, title="Gangs")


def _accepted(value: Any, *, kind: type[Struct]) -> bool:
    try:
        msgspec.convert(value, type=kind)
    except msgspec.ValidationError:
        return False
    return True


@unhurried
@given(case=specs(size=3, tries=4))
def test_the_schema_accepts_exactly_what_the_struct_accepts(case: tuple[type[Struct], list[Any]]) -> None:
    kind, values = case
    schema = values_schema(kind, title="random")
    for value in values:
        assert fits(value, schema) == _accepted(value, kind=kind), value


def test_an_unknown_value_is_refused_at_every_depth() -> None:
    assert SCHEMA["additionalProperties"] is False
    assert SCHEMA["properties"]["members"]["items"]["additionalProperties"] is False
    assert not fits({"members": [{"name": "a", "wieght": 1}]}, SCHEMA)


def test_what_passes_through_may_hold_anything() -> None:
    assert fits({"template": {"spec": {"containers": []}}, "settings": {"a": None}}, SCHEMA)
    assert not fits({"template": "no object"}, SCHEMA)


def test_what_helm_adds_by_itself_is_no_typo() -> None:
    assert fits({"global": {"anything": 1}}, SCHEMA)


def test_null_is_taken_where_it_means_absence() -> None:
    assert fits({"mode": None, "pace": None, "priority": None}, SCHEMA)
    assert not fits({"replicas": None}, SCHEMA)


def test_descriptions_and_defaults_are_there_for_editors() -> None:
    assert SCHEMA["properties"]["replicas"]["description"] == "How many. Written over two lines."
    assert SCHEMA["properties"]["linger"]["default"] == "30s"


def test_no_word_of_kubernetes_is_left_in_it() -> None:
    assert b"x-kubernetes" not in msgspec.json.encode(SCHEMA)


class Listed(Struct):
    """What stands in a list, from which Helm takes no null."""

    name: Annotated[str, OR_NULL, Meta(max_length=5)] = "a"
    inner: Annotated[Range, OR_NULL] = Range()
    kind: Annotated[Literal["x", "y"], OR_NULL] = "x"
    plain: int = 1
    words: Annotated[tuple[str, ...], OR_EMPTY, Meta(max_length=2)] = ()


class Lists(Struct):
    items: Annotated[tuple[Listed, ...], Meta(max_length=3)] = ()


def test_null_may_stand_in_values_where_the_api_server_drops_it() -> None:
    schema = values_schema(Lists, title="Lists")
    assert fits({"items": [{"name": None, "inner": None, "kind": None}]}, schema)
    assert not fits({"items": [{"plain": None}]}, schema)
    assert not fits({"items": [{"name": "too long"}]}, schema)
    assert fits({"items": [{"words": ""}, {"words": ["a"]}]}, schema)
    assert not fits({"items": [{"words": "a"}]}, schema)
    stored = structural(read(Lists), at=Place("Lists"))["properties"]["items"]["items"]["properties"]
    assert not any("nullable" in each for each in stored.values()), "null would be a value of its own"
    assert stored["words"]["type"] == "array"
    assert b"x-or" not in msgspec.json.encode([schema, stored])
