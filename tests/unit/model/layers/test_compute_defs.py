"""The layers that the chart ships go with each other, and say nothing that Kubernetes or Slurm would refuse."""

import re
from itertools import product
from typing import Any

import pytest
from tests.unit.model.layers.layering import SHIPPED, Values, asked, asking, composed, selector

from sunk.model.kubernetes.quantity import amount
from sunk.model.kubernetes.selection import fault, matches
from sunk.model.names import ACCELERATOR

MODEL = "gpu.nvidia.com/model"


def made(*names: str) -> Any:
    return composed("made", {"made": {"definitions": list(names)}}, shipped=SHIPPED).value


GPUS = sorted(name for name, layer in SHIPPED.items() if isinstance(layer, dict) and "gresGpu" in layer)
INSTANCES = sorted(name for name in SHIPPED if "node.kubernetes.io/instance-type" in str(SHIPPED[name]))


@pytest.mark.parametrize(
    "wanted",
    [
        "base coreweave cpu epyc xeon cpu-epyc cpu-xeon",
        "rtx4000 rtx5000 a4000 a5000 a6000 a40 a100 h100 h200 b200 b300 gb200 gb300 l40 l40s rtx6000 b200-8x",
        "cu117 cu118 cu120 cu121 cu122 cu124 cu126 cu128 cu129 cu130",
        "las1 lga1 ord1 us-east-04 us-west-01 rno2",
    ],
)
def test_the_layers_that_people_know_are_there(wanted: str) -> None:
    assert set(wanted.split()) <= SHIPPED.keys()


def test_every_layer_goes_with_every_other_in_both_orders() -> None:
    for pair in product(SHIPPED, repeat=2):
        value = made(*pair)
        assert fault(selector(value)) is None, pair
        assert "None" not in repr(value), pair


def test_a_layer_over_itself_changes_nothing() -> None:
    for name in SHIPPED:
        assert made(name, name) == made(name), name


def test_no_layer_says_what_a_definition_says_of_itself_nor_how_many() -> None:
    for name, layer in SHIPPED.items():
        assert isinstance(layer, dict), name
        assert not layer.keys() & {"enabled", "replicas", "podNamePrefix"}, name


@pytest.mark.parametrize("name", [*GPUS, *INSTANCES])
def test_a_gpu_layer_claims_the_gpus_that_slurm_counts_and_can_request_what_it_limits(name: str) -> None:
    value = made(name)
    limits, requests = value["resources"]["limits"], value["resources"]["requests"]
    counted = re.fullmatch(r"[a-z0-9_]+:([1-9][0-9]*)", value["gresGpu"])
    assert counted is not None
    assert {counted[1]} == {limits[ACCELERATOR], requests[ACCELERATOR]}
    assert amount(requests["memory"]) <= amount(limits["memory"])
    assert amount(requests["cpu"]) > 0
    assert value["features"] == ["gpu"]


@pytest.mark.parametrize("name", GPUS)
def test_a_gpu_layer_finds_its_model_in_any_region(name: str) -> None:
    (model,) = asked(made(name))[MODEL]
    assert matches(selector(made(name)), name="n", labels={"kubernetes.io/os": "linux", MODEL: model})
    assert asked(made(name)).keys() == {"kubernetes.io/os", MODEL}


def test_no_two_gpu_layers_look_for_the_same_model() -> None:
    models = [asked(made(name))[MODEL][0] for name in GPUS]
    assert len(set(models)) == len(models) > 0


@pytest.mark.parametrize("name", INSTANCES)
def test_an_instance_is_found_by_its_name_alone(name: str) -> None:
    assert asked(made(name)) == {"kubernetes.io/os": ["linux"], "node.kubernetes.io/instance-type": [name]}


@pytest.mark.parametrize(
    ("names", "labels", "wanted"),
    [
        ((), {}, True),
        (("cpu",), {}, True),
        (("cpu",), {MODEL: "", "node.coreweave.cloud/class": "cpu"}, True),
        (("cpu",), {"node.coreweave.cloud/class": "gpu"}, False),
        (("cpu",), {"nvidia.com/gpu.present": "true"}, False),
        (("cpu-epyc",), {"node.coreweave.cloud/cpu": "amd-epyc-milan"}, True),
        (("cpu-epyc",), {"node.coreweave.cloud/cpu": "intel-xeon-v4"}, False),
        (("cpu-xeon",), {"node.coreweave.cloud/cpu": "intel-xeon-v4"}, True),
        (("h100", "us-east-04"), {MODEL: "H100_NVLINK_80GB", "topology.kubernetes.io/region": "US-EAST-04"}, True),
        (("h100", "us-east-04"), {MODEL: "H100_NVLINK_80GB", "topology.kubernetes.io/region": "US-EAST-06"}, False),
        (("h100",), {}, False),
        (("coreweave",), {"node.coreweave.cloud/state": "production"}, True),
        (("coreweave",), {}, False),
    ],
)
def test_layers_take_the_nodes_that_they_are_for(names: tuple[str, ...], labels: Values, *, wanted: bool) -> None:
    assert matches(selector(made(*names)), name="n", labels={"kubernetes.io/os": "linux", **labels}) is wanted


def test_a_windows_node_is_never_taken() -> None:
    assert not matches(selector(made()), name="n", labels={"kubernetes.io/os": "windows"})


def test_the_base_can_be_extended_for_all_definitions_as_the_readme_says() -> None:
    nodes = {"base": {"definitions": ["base", "coreweave"]}, "mine": {"definitions": ["h100"]}}
    found = asked(composed("mine", nodes, shipped=SHIPPED).value)
    assert found.keys() == {"kubernetes.io/os", "node.coreweave.cloud/state", MODEL}


def test_the_label_of_gpus_can_be_exchanged_as_the_readme_says() -> None:
    expressions: list[Values] = [
        {"key": MODEL, "operator": None},
        {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-H100-80GB-HBM3"]},
    ]
    nodes = {"h100": {"definitions": ["h100"], **asking(*expressions)}, "mine": {"definitions": ["h100", "cu128"]}}
    found = asked(composed("mine", nodes, shipped=SHIPPED).value)
    assert found == {"kubernetes.io/os": ["linux"], "nvidia.com/gpu.product": ["NVIDIA-H100-80GB-HBM3"]}
