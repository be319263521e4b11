from pathlib import Path

import pytest

from sunk.local.kubernetes.network import MOST_NODES
from sunk.local.kubernetes.spec import ClusterSpec, LocalNode, Taint, chosen, from_file, plain
from sunk.model.refusal import Refusal

WHOLE = """
nodes:
  - name: gpu-1
    labels: {gpu.nvidia.com/class: H100_NVLINK_80GB}
    taints: [{key: dedicated, value: slurm, effect: NoSchedule}]
    resources: {nvidia.com/gpu: 8}
  - name: cpu-1
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "nodes.yaml"
    file.write_text(text)
    return file


def test_a_nodes_file_gives_names_labels_taints_and_resources(tmp_path: Path) -> None:
    gpu = LocalNode(
        name="gpu-1",
        labels={"gpu.nvidia.com/class": "H100_NVLINK_80GB"},
        taints=(Taint(key="dedicated", value="slurm", effect="NoSchedule"),),
        resources={"nvidia.com/gpu": 8},
    )
    assert from_file("a", file=written(tmp_path, WHOLE)) == ClusterSpec(name="a", nodes=(gpu, LocalNode(name="cpu-1")))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nodes: [{name: a, label: {}}]", r"unknown field `label`.*\$\.nodes\[0\]"),
        ("nodes: [{labels: {}}]", r"missing required field `name`.*\$\.nodes\[0\]"),
        ("nodes: [{name: a, taints: [{key: x}]}]", r"`effect`.*\$\.nodes\[0\]\.taints\[0\]"),
        ("nodes: [{name: a, taints: [{key: x, effect: Never}]}]", r"Invalid enum value 'Never'"),
        ("nodes: [{name: a, resources: {gpu: -1}}]", r"gpu: -1"),
        ("nodes: [{name: A}]", "'A' is not a valid name for a node"),
        ("nodes: [{name: a.b}]", "'a.b' is not a valid name for a node"),
        ("nodes: [{name: a}, {name: a}]", 'two nodes are named "a"'),
        ("nodes: []", "no nodes"),
        ("nodes: [", "is not YAML"),
        ("", "Expected `object`"),
    ],
)
def test_a_fault_in_a_nodes_file_is_said_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(Refusal, match=said):
        from_file("a", file=written(tmp_path, text))


def test_a_missing_nodes_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="cannot be read: No such file"):
        from_file("a", file=tmp_path / "none.yaml")


@pytest.mark.parametrize("name", ["", "a" * 31, "-a", "a-", "a/b", "a.b", "Ä"])
def test_a_name_that_would_not_do_everywhere_is_refused(name: str) -> None:
    with pytest.raises(Refusal, match="is not a valid name for a cluster"):
        plain(name, count=1)


@pytest.mark.parametrize("count", [0, -1, MOST_NODES + 1])
def test_too_few_or_too_many_nodes_are_refused(count: int) -> None:
    with pytest.raises(Refusal, match=f"--nodes {count}"):
        plain("a", count=count)


def test_options_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(Refusal, match="exclude each other"):
        chosen("a", count=2, file=None, api_only=True)


def test_a_cluster_has_three_nodes_unless_told_otherwise() -> None:
    assert chosen("a", count=None, file=None, api_only=False).node_names == ("node-1", "node-2", "node-3")
