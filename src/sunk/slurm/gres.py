"""Read the texts in which Slurm describes generic resources: `gpu:h100:2(IDX:0-1,5),shard:4(IDX:7)`."""

import re
from collections.abc import Iterator
from typing import Final

_PART: Final = re.compile(
    r"(?P<kind>[^:,()]+)(?::(?P<model>[^:,()]+))??:(?P<count>\d+)(?:\((?P<where>[^)]*)\))?(?:,|$)"
)


def indices(text: str, *, kind: str = "gpu") -> tuple[int, ...]:
    """The devices of one kind that a job holds on one node, of all models, in order."""
    found = (part["where"] or "" for part in _PART.finditer(text) if part["kind"] == kind)
    return tuple(sorted({each for where in found for each in _indices(where)}))


def count(text: str, *, kind: str = "gpu") -> int:
    """How many of one kind, of all models together."""
    return sum(int(part["count"]) for part in _PART.finditer(text) if part["kind"] == kind)


def _indices(where: str) -> Iterator[int]:
    name, _, ranges = where.partition(":")
    if name != "IDX" or ranges == "N/A":
        return
    for each in ranges.split(","):
        first, _, last = each.partition("-")
        yield from range(int(first), int(last or first) + 1)
