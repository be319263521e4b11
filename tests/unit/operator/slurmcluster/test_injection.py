"""No value, wherever it stands, brings more into a file of Slurm's than itself: each is tried, keys of maps too."""

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import msgspec
import pytest
from tests.integration.slurmcluster.test_objects import FULL

from sunk.model.cluster.kind import SlurmClusterSpec
from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.compute.nodesets import node_line
from sunk.operator.slurmcluster.daemons.slurmdbd import slurmdbd_conf
from sunk.operator.slurmcluster.render.values import over
from sunk.operator.slurmcluster.resolve import ResolvedCluster, resolve
from sunk.operator.slurmcluster.slurmconf.conf import configuration

MORE: dict[str, Any] = {
    "accounting": {"external": {"host": "db", "existingSecret": "db"}, "enforce": "limits"},
    "slurmConfig": {
        "cgroupConfig": {"ConstrainCores": "yes"},
        "extraConfig": "MinJobAge=400",
        "gresConfig": "AutoDetect=off",
        "schedulerParameters": "bf_continue",
    },
    "compute": {
        "partitions": "PartitionName=all Nodes=ALL",
        "nodes": {"gpu": {"definitions": ["mine"], "partitionConfig": {"MaxTime": "60"}, "podNamePrefix": "gpu"}},
        "layers": {"mine": {"features": ["mine"], "env": [{"name": "C", "value": "3"}]}},
    },
}
EVIL = (
    "x\nInclude /etc/shadow",
    "Include /etc/shadow",
    "x\r\nInclude /etc/shadow",
    "x\x0bInclude /etc/shadow",
    "Incl\\\nude /etc/shadow",
    "x\nSlurmUser=root",
    "x SlurmUser=root",
    "x\tSlurmUser=root",
    "1\\",
)
Path = tuple[str | int, ...]


def everything() -> dict[str, Any]:
    """Values that say something of nearly everything there is to say."""
    return over(over(msgspec.json.decode(msgspec.json.encode(SlurmClusterSpec())), FULL), MORE)


def places(tree: Any, at: Path = ()) -> Iterator[Path]:
    """Where a text stands, or a number or nothing in the place of one."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from places(value, (*at, key))
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from places(value, (*at, index))
    else:
        yield at


def put(tree: Any, at: Path, value: str) -> Any:
    made = deepcopy(tree)
    inner = made
    for step in at[:-1]:
        inner = inner[step]
    inner[at[-1]] = value
    return made


def renamed(tree: Any, at: Path, name: str) -> Any:
    made = deepcopy(tree)
    inner = made
    for step in at[:-1]:
        inner = inner[step]
    inner[name] = inner.pop(at[-1])
    return made


def texts(made: ResolvedCluster) -> dict[str, str]:
    """Everything that a program of Slurm's reads."""
    nodes = {each.name: node_line(made, each) for each in made.definitions}
    return {**configuration(made), "slurmdbd.conf": slurmdbd_conf(made), **nodes}


def harmless(values: Any) -> str:
    """Nothing, if the values are refused or stay what they are; else the line that got in."""
    try:
        spec = msgspec.json.decode(msgspec.json.encode(values), type=SlurmClusterSpec)
        made = texts(resolve(spec, name="slurm", namespace="team"))
    except (Refusal, msgspec.ValidationError):
        return ""
    lines = ((file, line) for file, text in made.items() for line in re.split(r"[\n\r\v\f]", text))
    return next((f"{file}: {line}" for file, line in lines if is_evil(file, line)), "")


def is_evil(file: str, line: str) -> bool:
    # gres.conf is theirs to write, and Slurm takes nothing there but what describes devices.
    foreign = "SlurmUser=root" in line.split() and file != "gres.conf"
    return foreign or line.endswith("\\") or re.match(r"\s*include\b", line, re.IGNORECASE) is not None


def test_the_values_as_they_are_make_files() -> None:
    spec = msgspec.json.decode(msgspec.json.encode(everything()), type=SlurmClusterSpec)
    assert "MaxTime=60" in texts(resolve(spec, name="slurm", namespace="team"))["slurm.conf"]
    assert len(list(places(everything()))) > 150


@pytest.mark.parametrize("evil", EVIL)
def test_no_value_brings_in_a_line_or_a_setting(evil: str) -> None:
    whole = everything()
    assert {at: line for at in places(whole) if (line := harmless(put(whole, at, evil)))} == {}


@pytest.mark.parametrize("evil", EVIL[::4])
def test_no_name_brings_in_a_line_or_a_setting(evil: str) -> None:
    whole = everything()
    named = {at[:depth] for at in places(whole) for depth in range(1, len(at) + 1) if isinstance(at[depth - 1], str)}
    assert {at: line for at in named if (line := harmless(renamed(whole, at, evil)))} == {}
