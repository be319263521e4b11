from typing import Any

import pytest
from msgspec import Struct, json, structs
from tests.unit.model.schema.samples import GANG, Colour, GangSpec, GangStatus

from sunk.model.schema.crd import definition
from sunk.model.schema.kind import Column, Kind, NoStatus, ScalePaths, Version, record
from sunk.model.schema.shape import Inexpressible


class Named(Struct, frozen=True, gc=False, rename="camel"):
    """What brings the metadata."""

    name: str


class Needy(Struct, frozen=True, gc=False):
    size: int


def _with(**changes: Any) -> Kind[Any, Any]:
    return structs.replace(GANG, stored=structs.replace(GANG.stored, **changes))


def _version(kind: Kind[Any, Any], index: int = 0) -> dict[str, Any]:
    version: dict[str, Any] = definition(kind)["spec"]["versions"][index]
    return version


def test_a_definition_is_named_after_plural_and_group() -> None:
    assert definition(GANG)["metadata"]["name"] == "gangs.test.sunk.coreweave.com"
    assert definition(GANG)["spec"]["names"]["singular"] == "gang"
    assert definition(structs.replace(GANG, namespaced=False))["spec"]["scope"] == "Cluster"


def test_a_kind_without_a_status_has_no_subresource_for_it() -> None:
    made = _version(_with(status=NoStatus, scale=None, columns=()))
    assert "subresources" not in made
    assert "status" not in made["schema"]["openAPIV3Schema"]["properties"]


def test_a_spec_with_something_required_is_required_itself() -> None:
    root = _version(_with(spec=Needy, scale=None, columns=()))["schema"]["openAPIV3Schema"]
    assert root["required"] == ["spec"]
    assert "default" not in root["properties"]["spec"]


def test_one_version_is_stored_and_the_others_are_told_to_be_old() -> None:
    old = Version("v1alpha0", spec=Needy, status=NoStatus, deprecated="use v1alpha1")
    kind = structs.replace(GANG, others=(old,))
    assert [_version(kind, index)["storage"] for index in (0, 1)] == [True, False]
    assert _version(kind, 1)["deprecationWarning"] == "use v1alpha1"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"columns": (Column("Size", ".spec.size"),)}, "the column Size shows .spec.size, and nothing lies there"),
        ({"scale": ScalePaths(spec=".spec.queue")}, "scale wants integer at .spec.queue"),
        ({"scale": ScalePaths(status=".status.ready")}, "scale wants integer at .status.ready"),
        ({"status": Needy}, "Gang v1alpha1.status.size: it is required"),
    ],
)
def test_what_points_at_nothing_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(Inexpressible, match=said):
        definition(_with(**changes))


def test_a_column_may_look_into_metadata_and_into_lists() -> None:
    paths = (".metadata.labels.x", '.status.conditions[?(@.type=="Ready")].status', ".spec.template.spec.nodeName")
    made = _version(_with(columns=tuple(Column("X", path) for path in paths)))
    assert [column["jsonPath"] for column in made["additionalPrinterColumns"]] == list(paths)


def test_a_record_reads_what_it_has_written() -> None:
    kind: Any = record(GANG, base=Named)
    made = kind(name="a", spec=GangSpec(colour=Colour.BLUE), status=GangStatus(replicas=2))
    read = json.decode(json.encode(made), type=kind)
    assert (read.spec.colour, read.status.replicas) == (Colour.BLUE, 2)
    assert json.encode(read, order="deterministic") == json.encode(made, order="deterministic")


def test_a_record_of_an_object_that_says_nothing_has_all_defaults() -> None:
    read: Any = json.decode(b'{"name": "a"}', type=record(GANG, base=Named))
    assert read.spec.replicas == 1
    assert read.status == GangStatus()


def test_a_record_is_hidden_from_the_collector_and_frozen() -> None:
    config = record(GANG, base=Named).__struct_config__
    assert (config.frozen, config.gc) == (True, False)
