"""Drains that people have put on machines, kept for when the machine has left and is back.

They stand in two places. On the Node, a line for each Slurm cluster that it was in:

    tenant-a/slurm:bad fan
    tenant-b/slurm:cable to be changed

A cluster has a namespace, since two may have one name. A person may read and edit this; what is no such line is dropped
when the annotation is written next.

And in ConfigMaps beside the SlurmCluster, because a Node object is deleted and made again when a machine is repaired.
There the key is the name of the Node, and the value a `KeptDrain` as JSON. It names the uid of the Node object that carried
the drain: another uid means that the Node is a new object and has lost its line, the same uid that somebody took the
line off. A value that does not begin with a brace is a reason that a person has written there.

All of it is bounded, whoever wrote it: Slurm sends the text of a drain to every reader.
"""

import re
from collections.abc import Mapping
from itertools import islice
from typing import Final

from msgspec import DecodeError, Struct, json

from sunk.model import names
from sunk.model.contract import drains

LONGEST: Final = 1024
"""Bytes of a reason: a Node has room for 256 KiB of annotations in all."""
MOST_CLUSTERS: Final = 64
"""Lines of a Node that are read."""
MOST: Final = 256
"""Nodes in one ConfigMap, of which Kubernetes takes 1 MiB."""
_CLUSTER: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}/[a-z0-9.-]{0,253}")


class KeptDrain(Struct, frozen=True, omit_defaults=True):
    """A drain of a machine whose Node object may be gone."""

    reason: str
    uid: str = ""
    """Of the Node object that carried it; unknown if a person has written this."""


def cluster(*, namespace: str, name: str) -> str:
    """What a cluster is called in here."""
    return f"{namespace}/{name}"


def one_line(reason: str) -> str:
    return drains.plain(reason, longest=LONGEST)


def line(reason: str) -> str:
    """A person's reason as it can be kept."""
    words = one_line(reason)
    # A blank in front had made it a person's; without one it would be taken for a drain of ours, and not put on again.
    return drains.plain(f"({words})", longest=LONGEST) if drains.is_ours(words) else words


def read(text: str) -> dict[str, str]:
    """The reasons by cluster."""
    pairs = (each.partition(":") for each in text.splitlines())
    found = ((where.strip(), line(reason)) for where, colon, reason in pairs if colon)
    return dict(islice((pair for pair in found if _CLUSTER.fullmatch(pair[0])), MOST_CLUSTERS))


def on_node(annotations: Mapping[str, str], cluster: str) -> str | None:
    """The drain that a Node says itself."""
    text = annotations.get(names.KEPT_DRAIN)
    return read(text).get(cluster) or None if text else None


def write(reasons: Mapping[str, str]) -> str | None:
    """The value of the annotation; none if nothing is kept."""
    return "\n".join(f"{where}:{line(reason)}" for where, reason in sorted(reasons.items())) or None


def read_record(text: str) -> KeptDrain | None:
    """What stands in a ConfigMap for a Node; None if it says nothing."""
    try:
        found = json.decode(text, type=KeptDrain) if text.lstrip().startswith("{") else KeptDrain(text)
    except (DecodeError, RecursionError):
        return None
    words = line(found.reason)
    return KeptDrain(words, uid=found.uid) if words else None


def write_record(record: KeptDrain) -> str:
    return json.encode(record).decode()
