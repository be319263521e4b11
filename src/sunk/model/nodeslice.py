"""NodeSlice: a part of the list of who is a member of a NodeSet.

Membership has an object of its own, so that a Pod that restarts is no removal, and a removal is no death of a Pod.
"""

from datetime import datetime
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from sunk.model.names import GROUP, VERSION
from sunk.model.schema.kind import AGE, Column, Kind, Version
from sunk.model.schema.vocabulary import DnsLabel, keyed

MOST_ENTRIES: Final = 100

State = Literal["joined", "parked", "leaving"]


class Entry(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """One member."""

    name: DnsLabel
    """What its Pod and its Slurm node are called; decided once and kept."""
    node: Annotated[str, Meta(min_length=1, max_length=253)]
    """The Kubernetes Node it is on."""
    state: State = "joined"
    """`parked` has no Pod for now (power saving); `leaving` is on its way out and must get no new jobs."""
    reason: Annotated[str, Meta(max_length=1024)] = ""
    """Why it is leaving."""
    absent_since: datetime | None = None
    """Since when its Node is missing: an absence of a minute ends the membership, whoever leads meanwhile."""


class NodeSliceSpec(Struct, frozen=True, gc=False, rename="camel"):
    """Written by the NodeSet controller alone."""

    node_set: Annotated[str, Meta(min_length=1, max_length=253)]
    node_set_uid: Annotated[str, Meta(min_length=1, max_length=64)]
    cluster: Annotated[str, Meta(max_length=63)] = ""
    """The Slurm cluster that the members are nodes of."""
    entries: Annotated[tuple[Entry, ...], keyed("name"), Meta(max_length=MOST_ENTRIES)] = ()


class Refused(Struct, frozen=True, gc=False, rename="camel"):
    """A member that cannot leave yet."""

    name: DnsLabel
    reason: Annotated[str, Meta(max_length=1024)] = ""
    """What Slurm says about it."""


class NodeSliceStatus(Struct, frozen=True, gc=False, rename="camel"):
    """Written by the syncer alone."""

    released: Annotated[tuple[DnsLabel, ...], Meta(max_length=MOST_ENTRIES)] = ()
    """Leaving members that Slurm has no record of any more: their names are free."""
    refused: Annotated[tuple[Refused, ...], keyed("name"), Meta(max_length=MOST_ENTRIES)] = ()


NODESLICE: Final = Kind(
    "NodeSlice",
    group=GROUP,
    plural="nodeslices",
    description="A part of the members of a NodeSet.",
    short_names=("nslice",),
    categories=("sunk",),
    stored=Version(
        VERSION,
        spec=NodeSliceSpec,
        status=NodeSliceStatus,
        columns=(Column("NodeSet", ".spec.nodeSet"), Column("Cluster", ".spec.cluster"), AGE),
    ),
)
