"""The values of the chart `slurm`, as they are checked in."""

from pathlib import Path
from typing import Any

import msgspec
import yaml

from sunk.model.cluster.kind import SlurmClusterSpec

SLURM = Path(__file__).parents[3] / "charts" / "slurm"


def test_values_of_the_chart_are_the_defaults_of_the_types() -> None:
    written = yaml.safe_load((SLURM / "values.yaml").read_text())
    written["compute"]["nodes"] = {}
    written["slurmConfig"]["slurmd"] |= {"prologConfigMap": None, "epilogConfigMap": None}
    assert msgspec.convert(written, SlurmClusterSpec) == SlurmClusterSpec()
    every = msgspec.to_builtins(SlurmClusterSpec())
    assert missing(every, written) == []


def missing(every: dict[str, Any], written: dict[str, Any], at: str = "") -> list[str]:
    """Values that the chart's file does not show; those that are null by default need not be there."""
    found = [f"{at}{key}" for key, value in every.items() if value is not None and key not in written and key != "name"]
    inner = ((key, value) for key, value in every.items() if isinstance(value, dict) and key in written)
    return found + [path for key, value in inner for path in missing(value, written[key], f"{at}{key}.")]
