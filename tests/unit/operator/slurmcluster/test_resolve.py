"""A definition as people write it, and as builders read it."""

from msgspec.structs import fields

from sunk.model.cluster.compute import Definition
from sunk.operator.slurmcluster.resolve import NodeDefinition

COMPOSED_AWAY = {"definitions", "node_selector"}
"""The layers are applied, and labels have become affinity (`sunk.model.layers`)."""
ADDED = {"name"}
"""The key of the definition in the values."""


def test_a_field_of_definitions_is_known_to_those_who_build_from_them() -> None:
    written, resolved = ({field.name for field in fields(kind)} for kind in (Definition, NodeDefinition))
    assert resolved - ADDED == written - COMPOSED_AWAY, (
        "a field belongs into Definition (model/cluster/compute.py) and NodeDefinition (operator/slurmcluster/resolve.py)"
    )
