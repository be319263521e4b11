"""`sunk render` and Helm make the same of a chart and values."""

import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from msgspec import json

from sunk.local.kubernetes import assets
from sunk.model.cluster.kind import SlurmClusterSpec
from sunk.operator.slurmcluster.render.values import over, over_chart, read, spec, values

CHART = Path(__file__).parents[2] / "charts" / "slurm"
Tree = dict[str, Any]

MINE: Tree = {
    "controller": {"state": {"storageClassName": "fast"}, "resources": {"limits": {"cpu": None}}},
    "compute": {
        "nodes": {
            "gpu": {
                "enabled": True,
                "definitions": ["h100"],
                "env": None,
                "tolerations": [{"key": "a"}],
                "resources": {"limits": {"memory": None}},
            },
            "cpu-epyc": None,
        },
        "volumes": [{"name": "scratch", "emptyDir": {}}],
        "layers": {"h100": {"gresGpu": "h100:4"}},
    },
    "global": {"shared": True},
}
THEIRS: Tree = {
    "controller": {"state": None},
    "compute": {"partitions": None, "nodes": {"cpu-epyc": {"enabled": True}}},
}


@pytest.fixture(scope="module")
def helm() -> Path:
    return assets.fill(images=False).parts.helm


def template(helm: Path, chart: Path, *files: Path) -> str:
    more = [word for file in files for word in ("--values", str(file))]
    command = [str(helm), "template", "slurm", str(chart), *more]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def written(folder: Path, *trees: Tree) -> list[Path]:
    files = [folder / f"{number}.yaml" for number, _ in enumerate(trees)]
    for file, tree in zip(files, trees, strict=True):
        file.write_text(yaml.safe_dump(tree))
    return files


@pytest.mark.parametrize(
    ("shipped", "trees"),
    [
        ((), ()),
        (("values-local.yaml",), ()),
        (("values-coreweave.yaml",), ()),
        (("values-local.yaml",), (MINE,)),
        ((), (MINE, THEIRS)),
        ((), (THEIRS, MINE)),
    ],
)
def test_the_spec_is_the_one_that_helm_gives(
    helm: Path, tmp_path: Path, shipped: tuple[str, ...], trees: tuple[Tree, ...]
) -> None:
    files = [*(CHART / name for name in shipped), *written(tmp_path, *trees)]
    found = yaml.safe_load(template(helm, CHART, *files))["spec"]
    assert values(CHART, files) == found
    assert spec(CHART, files) == json.decode(json.encode(found), type=SlurmClusterSpec)


SCALARS = """
  [24:00:00, 1:30, 190:20:30.15, 2026-01-02, 2026-01-02T03:04:05Z, 1e3, 1.5e3, 12e03, 1e+06, -1e-3, .5, +.5, 1., 1.0, 1.5,
  0x1F, 0x0200, 1_000, 1_0.5, 010, 0o10, 0b11, 08, 0777, +1, -0, 0, yes, no, on, off, y, n, Yes, TRUE, tRUE, ~, null, Null,
  nULL, "1", "yes", 4Gi, 10%, "=", 1.2.3, 0x, e3, 2026, 00, +, ., 1-00:00:00, "", '', a b]
"""


def test_a_text_is_read_as_helm_reads_it(helm: Path, tmp_path: Path) -> None:
    folder = tmp_path / "chart"
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("{apiVersion: v2, name: any, version: 0.1.0}")
    (folder / "templates" / "all.yaml").write_text("found: {{ toJson .Values }}")
    file = tmp_path / "values.yaml"
    file.write_text(f"a: {SCALARS}b: {{y: 1, 2: 3, 24:00:00: 5, 2026-01-02: 6}}\n")
    found = json.decode(template(helm, folder, file).partition("found: ")[2].strip())
    assert read(file) == found


def tree(chance: Random, *, depth: int = 3) -> Tree:
    """Few keys, so that they meet often."""
    keys = [key for key in ("a", "b", "c") if chance.random() < 0.6]
    return {key: tree(chance, depth=depth - 1) if depth and chance.random() < 0.6 else leaf(chance) for key in keys}


def leaf(chance: Random) -> object:
    return chance.choice([None, None, 1, "text", [1, None], [], {}])


def test_any_values_are_merged_as_helm_merges_them(helm: Path, tmp_path: Path) -> None:
    chance = Random(1)  # noqa: S311 - the same in every run
    cases = [f"case{number}" for number in range(300)]
    chart, first, second = ({case: tree(chance) for case in cases} for _ in range(3))
    folder = tmp_path / "chart"
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("{apiVersion: v2, name: any, version: 0.1.0}")
    (folder / "values.yaml").write_text(yaml.safe_dump(chart))
    (folder / "templates" / "all.yaml").write_text("found: {{ toJson .Values }}")
    found = yaml.safe_load(template(helm, folder, *written(tmp_path, first, second)))["found"]
    ours = over_chart(chart, over(first, second))
    for case in cases:
        assert ours[case] == found[case], (chart[case], first[case], second[case])
