"""The values of the chart `sunk`, as they are checked in."""

from pathlib import Path
from typing import Any

import yaml
from msgspec import json

from sunk.model.installation import OperatorValues
from sunk.model.names import GROUP

CHART = Path(__file__).parents[3] / "charts" / "sunk"


def written() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return found


def test_the_values_of_the_chart_are_the_defaults_of_their_types() -> None:
    assert written() == json.decode(json.encode(OperatorValues()))


def test_the_values_of_the_chart_can_be_read() -> None:
    assert json.decode(json.encode(written()), type=OperatorValues) == OperatorValues()


def test_the_chart_grants_rights_in_the_group_of_our_kinds() -> None:
    assert f"apiGroups: [{GROUP}]" in (CHART / "templates" / "_names.tpl").read_text()
