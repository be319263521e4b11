"""Definitions are composed of layers: the examples of the chart's documentation, and which layers come in which order."""

import pytest
import yaml
from tests.unit.model.layers.layering import SHIPPED, Values, asked, composed, laid, terms, within

from sunk.model.layers.tree import Layer, spoken

# The examples

WRITTEN_OUT = """
rtx4000:
  enabled: false
  replicas: 2
  features:
    - gpu
    - las1
    - cu117
  image:
    repository: my-slurmd-cu117
  env:
    - name: example
      value: "1"
  gresGpu: quadro_rtx_4000:7
  resources:
    limits:
      memory: 16Gi
      sunk.coreweave.com/accelerator: '7'
    requests:
      cpu: '8'
      memory: 16Gi
      sunk.coreweave.com/accelerator: '7'
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
          - matchExpressions:
              - key: topology.kubernetes.io/region
                operator: In
                values:
                  - LAS1
              - key: gpu.nvidia.com/model
                operator: In
                values:
                  - Quadro_RTX_4000
"""

LAYERED = """
cu117:
  definitions:
    - cu117
  image:
    repository: my-slurmd-cu117
rtx4000-cu117:
  replicas: 2
  env:
    - name: example
      value: "1"
  definitions:
    - rtx4000
    - cu117
    - las1
"""

A4000 = """
a4000:
  resources:
    limits:
      memory: 200Gi
      sunk.coreweave.com/accelerator: '7'
    requests:
      cpu: '32'
      memory: 200Gi
      sunk.coreweave.com/accelerator: '7'
  gresGpu: rtx_a4000:7
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
          - matchExpressions:
              - key: topology.kubernetes.io/region
                operator: In
                values:
                  - LAS1
              - key: gpu.nvidia.com/model
                operator: In
                values:
                  - RTX_A4000
"""

LGA1 = """
lga1:
  features:
    - lga1
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
          - matchExpressions:
              - key: topology.kubernetes.io/region
                operator: In
                values:
                  - LGA1
"""

RESERVATION = """
reservation-id:
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
          - matchExpressions:
              - key: node.coreweave.cloud/reserved
                operator: In
                values:
                  - <my-reservation-id>
my-node-def:
  definitions:
  - rtx4000
  - las1
  - cu117
  - reservation-id
my-second-node-def:
  definitions:
  - a4000
  - lga1
  - cu120
  - reservation-id
"""


def test_a_definition_without_layers_is_what_it_says_and_has_no_base() -> None:
    made = composed("rtx4000", WRITTEN_OUT, shipped=SHIPPED)
    assert made.value == yaml.safe_load(WRITTEN_OUT)["rtx4000"]
    assert made.layers == (Layer("rtx4000"),)


def test_a_layered_definition_equals_the_one_written_out() -> None:
    made = composed("rtx4000-cu117", LAYERED, shipped=SHIPPED).value
    wanted = yaml.safe_load(WRITTEN_OUT)["rtx4000"]
    assert asked(made) == asked(wanted) | {"kubernetes.io/os": ["linux"]}
    assert sorted(made["features"]) == sorted(wanted["features"])
    others = wanted.keys() - {"affinity", "features", "enabled"}
    assert {key: made[key] for key in others} == {key: wanted[key] for key in others}
    assert made.keys() == others | {"affinity", "features"}


def test_the_layer_of_the_a4000_is_that_of_the_example_but_leaves_the_region_to_others() -> None:
    wanted = yaml.safe_load(A4000)["a4000"]
    made = composed("a4000", {"a4000": {"definitions": ["a4000"]}}, shipped=SHIPPED).value
    assert (made["resources"], made["gresGpu"]) == (wanted["resources"], wanted["gresGpu"])
    assert asked(made)["gpu.nvidia.com/model"] == asked(wanted)["gpu.nvidia.com/model"]
    assert "topology.kubernetes.io/region" not in asked(made)


def test_what_only_one_side_has_stays_and_what_both_have_is_replaced_or_united() -> None:
    below = """
      features: [gpu]
      resources:
        limits: {memory: 200Gi, sunk.coreweave.com/accelerator: '7'}
    """
    above = """
      features: [las1]
      resources:
        limits: {memory: 100Gi}
        requests: {memory: 16Gi, sunk.coreweave.com/accelerator: '7'}
    """
    wanted = """
      features: [gpu, las1]
      resources:
        limits: {memory: 100Gi, sunk.coreweave.com/accelerator: '7'}
        requests: {memory: 16Gi, sunk.coreweave.com/accelerator: '7'}
    """
    assert laid(yaml.safe_load(below), yaml.safe_load(above)) == yaml.safe_load(wanted)


def test_the_layer_of_a_region_is_that_of_the_example() -> None:
    assert SHIPPED["lga1"] == yaml.safe_load(LGA1)["lga1"]


def test_a_region_over_another_region_replaces_it_and_keeps_the_rest() -> None:
    made = laid(yaml.safe_load(A4000)["a4000"], yaml.safe_load(LGA1)["lga1"])
    assert terms(made) == [
        [within("topology.kubernetes.io/region", "LGA1"), within("gpu.nvidia.com/model", "RTX_A4000")]
    ]


def test_layers_are_applied_in_order_so_the_last_region_and_the_last_gpu_hold() -> None:
    nodes = {"mine": {"definitions": ["rtx4000", "cu117", "las1", "lga1", "a4000"]}}
    made = composed("mine", nodes, shipped=SHIPPED).value
    assert asked(made)["gpu.nvidia.com/model"] == ["RTX_A4000"]
    assert asked(made)["topology.kubernetes.io/region"] == ["LGA1"]
    assert made["gresGpu"] == "rtx_a4000:7"
    assert made["resources"]["requests"]["cpu"] == "32"
    assert made["features"] == ["gpu", "cu117", "las1", "lga1"]


def test_what_stands_beside_the_definitions_comes_last() -> None:
    nodes = """
      my-node:
        definitions: [rtx4000, cu117, las1]
        resources:
          limits:
            memory: 100Gi
    """
    made = composed("my-node", nodes, shipped=SHIPPED)
    assert made.value["resources"]["limits"] == {"memory": "100Gi", "sunk.coreweave.com/accelerator": "7"}
    assert made.value["resources"]["requests"]["memory"] == "16Gi"


@pytest.mark.parametrize(("name", "model"), [("my-node-def", "Quadro_RTX_4000"), ("my-second-node-def", "RTX_A4000")])
def test_any_definition_serves_as_a_layer_for_others(name: str, model: str) -> None:
    made = asked(composed(name, RESERVATION, shipped=SHIPPED).value)
    assert made["node.coreweave.cloud/reserved"] == ["<my-reservation-id>"]
    assert made["gpu.nvidia.com/model"] == [model]


# Which layers, and in which order

BASE = {"base": {"features": ["base"], "sharing": "open"}}


def test_base_is_beneath_what_uses_definitions_even_if_they_are_empty() -> None:
    nodes: Values = {"with": {"definitions": []}, "without": {"gresGpu": "a:1"}, "null": {"definitions": None}}
    assert composed("with", nodes, shipped=BASE).value == BASE["base"]
    assert composed("without", nodes, shipped=BASE).value == {"gresGpu": "a:1"}
    assert composed("null", nodes, shipped=BASE).value == {}


def test_base_named_once_more_changes_nothing() -> None:
    nodes: Values = {"mine": {"definitions": ["base", "other"]}, "other": {"sharing": "slurmOnly"}}
    assert composed("mine", nodes, shipped=BASE).value == {"features": ["base"], "sharing": "slurmOnly"}


def test_base_stays_at_the_bottom_when_a_layer_is_composed_itself() -> None:
    nodes: Values = {
        "closed": {"sharing": "slurmOnly"},
        "below": {"gresGpu": "a:1"},
        "layered": {"definitions": ["below"], "features": ["layered"]},
        "mine": {"definitions": ["closed", "layered"]},
    }
    made = composed("mine", nodes, shipped=BASE)
    assert made.value == {"features": ["base", "layered"], "sharing": "slurmOnly", "gresGpu": "a:1"}
    assert [str(layer) for layer in made.layers] == ["base (shipped)", "closed", "below", "layered", "mine"]


def test_what_a_definition_says_of_itself_is_not_handed_on() -> None:
    nodes: Values = {
        "layer": {"enabled": False, "podNamePrefix": "slow", "replicas": 2, "definitions": []},
        "mine": {"enabled": True, "definitions": ["layer"]},
        "silent": {"definitions": ["layer"]},
    }
    assert composed("mine", nodes).value == {"enabled": True, "replicas": 2}
    assert composed("silent", nodes).value == {"replicas": 2}
    assert composed("layer", nodes).value == {"enabled": False, "podNamePrefix": "slow", "replicas": 2}


def test_a_key_of_the_users_shadows_a_shipped_layer() -> None:
    nodes: Values = {"h100": {"gresGpu": "mine:1"}, "node": {"definitions": ["h100"]}}
    assert composed("node", nodes, shipped={"h100": {"gresGpu": "theirs:8"}}).value == {"gresGpu": "mine:1"}


def test_a_definition_that_names_itself_builds_on_the_shipped_layer_of_that_name() -> None:
    nodes: Values = {
        "base": {"definitions": ["base"], "features": ["more"]},
        "h100": {"definitions": ["h100"], "replicas": 3},
        "node": {"definitions": ["h100"]},
    }
    shipped = {**BASE, "h100": {"gresGpu": "h100:8"}}
    wanted = {"features": ["base", "more"], "sharing": "open", "gresGpu": "h100:8", "replicas": 3}
    assert composed("h100", nodes, shipped=shipped).value == wanted
    assert composed("node", nodes, shipped=shipped).value == wanted
    assert composed("base", nodes, shipped=shipped).value == {"features": ["base", "more"], "sharing": "open"}


def test_shipped_layers_are_built_on_shipped_layers_only() -> None:
    nodes: Values = {"b200": {"definitions": ["b200-8x"], "gresGpu": "mine:1"}, "node": {"definitions": ["b200-8x"]}}
    shipped = {"b200": {"gresGpu": "b200:8"}, "b200-8x": {"definitions": ["b200"]}}
    assert composed("node", nodes, shipped=shipped).value == {"gresGpu": "b200:8"}
    assert composed("b200", nodes, shipped=shipped).value == {"gresGpu": "mine:1"}


def test_values_given_are_left_alone_and_not_shared_with_the_result() -> None:
    nodes: Values = {
        "layer": {"features": ["a"], "map": {"x": [1]}},
        "mine": {"definitions": ["layer"], "map": {"y": 1}},
    }
    before = repr(nodes)
    made = composed("mine", nodes).value
    made["features"].append("b")
    made["map"]["x"].append(2)
    assert repr(nodes) == before


# Where values came from


def test_every_leaf_knows_the_layer_that_it_came_from() -> None:
    nodes: Values = {
        "mine": {"definitions": ["h100", "small"], "env": [{"name": "A", "value": "2"}], "s6": {}},
        "small": {"features": ["gpu", "small"], "resources": {"limits": {"memory": "1Gi"}}},
    }
    h100 = {
        "features": ["gpu"],
        "env": [{"name": "A", "value": "1"}],
        "resources": {"limits": {"memory": "8Gi", "x.y/z": 8}},
    }
    made = composed("mine", nodes, shipped={"h100": h100, "base": {"env": [{"name": "B", "value": "0"}]}})
    assert {spoken(path): str(layer) for path, layer in made.origins.items()} == {
        "env[0].name": "base (shipped)",
        "env[0].value": "base (shipped)",
        "env[1].name": "mine",
        "env[1].value": "mine",
        "features[0]": "h100 (shipped)",
        "features[1]": "small",
        "resources.limits.memory": "small",
        'resources.limits["x.y/z"]': "h100 (shipped)",
        "s6": "mine",
    }


def test_an_expression_that_was_replaced_comes_from_the_layer_that_replaced_it() -> None:
    made = composed("mine", {"mine": {"definitions": ["h100", "las1", "lga1"]}}, shipped=SHIPPED)
    (region,) = (path for path, layer in made.origins.items() if layer.name == "lga1" and path[-1] == "key")
    assert spoken(region).endswith("nodeSelectorTerms[0].matchExpressions[2].key")
    assert "las1" not in {layer.name for path, layer in made.origins.items() if path[0] == "affinity"}
