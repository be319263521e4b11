"""Partitions that are to go while jobs may still name them.

A partition that is gone from slurm.conf takes its jobs along, those that run and those that wait. So it leaves in two
steps: it stays as it was but takes no new jobs, and is left out when no job names it any more.
"""

import re
from typing import Final

from sunk.operator.slurmcluster.slurmconf.lines import keys

_PARTITION: Final = re.compile(r"PartitionName=(\S+)", re.IGNORECASE)
_SET: Final = re.compile(r"NodeSet=(\S+)", re.IGNORECASE)
_NODES: Final = re.compile(r"(?<!\S)Nodes=(\S+)", re.IGNORECASE)
_STATE: Final = re.compile(r"(?<!\S)State=\S+", re.IGNORECASE)
_DEFAULT: Final = re.compile(r"\s+Default=\S+", re.IGNORECASE)
EVERYTHING: Final = "DEFAULT"
"""A line of this name is no partition, and says what those behind it have in common."""


def leaving(before: str, after: str) -> list[str]:
    """Lines that a new slurm.conf needs beside its own, so that partitions of the old one stay, drained."""
    there = set(_named(_PARTITION, after))
    gone = [line for line in before.splitlines() if _of(_PARTITION, line) not in {"", EVERYTHING, *there}]
    sets = {name for line in gone for found in _NODES.findall(line) for name in found.split(",")}
    known = set(_named(_SET, after))
    kept = [line for line in before.splitlines() if _of(_SET, line) in sets - known - {""}]
    return [*kept, *(_drained(line) for line in gone)]


def _named(pattern: re.Pattern[str], text: str) -> list[str]:
    return [name for line in text.splitlines() if (name := _of(pattern, line))]


def _of(pattern: re.Pattern[str], line: str) -> str:
    found = pattern.match(line.strip())
    return found[1] if found else ""


def _drained(line: str) -> str:
    """Without being the default one, which another may be by now."""
    plain = _DEFAULT.sub("", line)
    states = "state" in {key.lower() for key in keys(plain)}
    return _STATE.sub("State=DRAIN", plain) if states else f"{plain} State=DRAIN"
