"""Keys that nothing reads are found at any depth, and nothing else is."""

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from sunk.model.cluster.kind import SlurmClusterSpec
from sunk.model.schema.misspelt import misspelt


class Inner(Struct, frozen=True, rename="camel"):
    max_time: int = 0
    """In minutes. Of what, the test does not care."""
    free: dict[str, Any] = field(default_factory=dict)


class Outer(Struct, frozen=True):
    one: Inner = Inner()
    many: Annotated[tuple[Inner, ...], Meta(max_length=9)] = ()
    named: Annotated[dict[str, Inner], Meta(max_length=9)] = field(default_factory=dict)


def test_what_is_spelt_well_is_passed_over() -> None:
    assert misspelt({"one": {"maxTime": 1}, "many": [{}], "named": {"any name": {"maxTime": 2}}}, Outer) == ()
    assert misspelt({}, Outer) == ()


def test_a_typo_is_told_with_its_path_and_what_was_meant() -> None:
    assert misspelt({"one": {"maxtime": 1}}, Outer) == ("one.maxtime: no such value. Did you mean maxTime?",)
    assert misspelt({"many": [{}, {"maxTimes": 1}]}, Outer)[0].startswith("many[1].maxTimes: ")
    assert misspelt({"named": {"a": {"zzz": 1}}}, Outer) == (
        "named.a.zzz: no such value. Known: free, maxTime (In minutes).",
    )


def test_every_typo_is_told() -> None:
    found = misspelt({"one": {"maxtime": 1, "fre": {}}, "many": [{"zzz": 1}], "nmaed": {}}, Outer)
    assert [each.partition(":")[0] for each in found] == ["one.maxtime", "one.fre", "many[0].zzz", "nmaed"]


def test_what_is_only_a_little_alike_is_not_suggested() -> None:
    (said,) = misspelt({"compute": {"mounts": [{"mountPath": "/home", "pvc": "home"}]}}, SlurmClusterSpec)
    assert said.startswith("compute.mounts[0].mountPath: no such value. Known: name (Mount path), ")


def test_what_is_passed_on_unread_may_hold_anything() -> None:
    assert misspelt({"one": {"free": {"whatever": {"deep": 1}}}}, Outer) == ()


def test_a_value_of_the_wrong_type_is_left_to_whoever_converts_it() -> None:
    assert misspelt({"one": 3, "many": {}, "named": []}, Outer) == ()


def test_null_in_the_place_of_a_map_is_no_typo() -> None:
    assert misspelt({"compute": {"nodes": {"gpu": {"resources": None, "image": None}}}}, SlurmClusterSpec) == ()
