"""The example of the guide, word for word, on a real API server."""

import re
from contextlib import suppress
from pathlib import Path

import yaml
from tests.conftest import Kube
from tests.integration.nodeset.stage import Operator, Stage

from sunk.kube.errors import AlreadyExists
from sunk.kube.resource import Record, Resource
from sunk.model import names
from sunk.objects.nodesets import NODESETS

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "nodeset.md"
CLASSES = Resource(Record, group="scheduling.k8s.io", version="v1", plural="priorityclasses", namespaced=False)


async def test_the_example_of_the_guide_makes_nodes_of_those_that_are_labelled(kube: Kube, stage: Stage) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    with suppress(AlreadyExists):  # the chart makes it
        await stage.client.create(CLASSES, {"metadata": {"name": "sunk-compute"}, "value": 1_000_000})
    for node in stage.nodes[:2]:
        await stage.label(node, pool="gpu")
    async with Operator(kube):
        await stage.client.create(NODESETS, yaml.safe_load(example), namespace=stage.namespace)
        await stage.settled(2)
    pods = await stage.pods()
    assert {pod.spec.node_name for pod in pods.values()} == set(stage.nodes[:2])
    assert {pod.metadata.annotations[names.FEATURES] for pod in pods.values()} == {"h100"}
