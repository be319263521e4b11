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
    """Name of its Pod and of its Slurm node. It never changes."""
    node: Annotated[str, Meta(min_length=1, max_length=253)]
    """Its Kubernetes Node."""
    state: State = "joined"
    """`parked`: no Pod for now (power saving). `leaving`: being removed, must get no new jobs."""
    reason: Annotated[str, Meta(max_length=1024)] = ""
    """Why it is leaving."""
    absent_since: datetime | None = None
    """When its Node went missing. The member is removed after a minute."""


class NodeSliceSpec(Struct, frozen=True, gc=False, rename="camel"):
    """Written only by the NodeSet controller."""

    node_set: Annotated[str, Meta(min_length=1, max_length=253)]
    """Name of the NodeSet."""
    node_set_uid: Annotated[str, Meta(min_length=1, max_length=64)]
    """uid of the NodeSet."""
    cluster: Annotated[str, Meta(max_length=63)] = ""
    """The Slurm cluster of the members."""
    entries: Annotated[tuple[Entry, ...], keyed("name"), Meta(max_length=MOST_ENTRIES)] = ()
    """The members."""


class Refused(Struct, frozen=True, gc=False, rename="camel"):
    """A member that cannot leave yet."""

    name: DnsLabel
    """Name of the member."""
    reason: Annotated[str, Meta(max_length=1024)] = ""
    """Why Slurm cannot release it."""


class NodeSliceStatus(Struct, frozen=True, gc=False, rename="camel"):
    """Written only by the syncer."""

    released: Annotated[tuple[DnsLabel, ...], Meta(max_length=MOST_ENTRIES)] = ()
    """Leaving members whose record in Slurm is gone: their names are free."""
    refused: Annotated[tuple[Refused, ...], keyed("name"), Meta(max_length=MOST_ENTRIES)] = ()
    """Leaving members that Slurm cannot release yet."""


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
