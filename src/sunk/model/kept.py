"""Drains that a machine had when it left, written on its Node: a line for each Slurm cluster that it was in.

    tenant-a/slurm:bad fan
    tenant-b/slurm:cable to be changed

A cluster has a namespace, since two may have one name. A person may read and edit this; what is no such line is dropped
when the annotation is written next.
"""

from collections.abc import Mapping
from typing import Final

from sunk.model import drains

LONGEST: Final = 1024
"""Of a reason: a Node has room for 256 KiB of annotations in all."""


def cluster(*, namespace: str, name: str) -> str:
    """What a cluster is called in here."""
    return f"{namespace}/{name}"


def one_line(reason: str) -> str:
    return " ".join(reason.split())[:LONGEST].rstrip()


def line(reason: str) -> str:
    """A person's reason as it can be kept."""
    words = one_line(reason)
    # A blank in front had made it a person's; without one it would be taken for a drain of ours, and not put on again.
    return f"({words})" if drains.is_ours(words) else words


def read(text: str) -> dict[str, str]:
    """The reasons by cluster."""
    pairs = (each.partition(":") for each in text.splitlines())
    return {where.strip(): line(reason) for where, colon, reason in pairs if colon and where.strip()}


def write(reasons: Mapping[str, str]) -> str | None:
    """The value of the annotation; none if nothing is kept."""
    return "\n".join(f"{where}:{line(reason)}" for where, reason in sorted(reasons.items())) or None
