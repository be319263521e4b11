"""Every kind and every values file whose schema this project ships: what `make generate` writes."""

from typing import Any, Final

from msgspec import Struct

from sunk.model.cluster.kind import SLURMCLUSTER, SlurmClusterSpec
from sunk.model.installation import OperatorValues
from sunk.model.nodeset import NODESET
from sunk.model.nodeslice import NODESLICE
from sunk.model.schema.kind import Kind


class Values(Struct, frozen=True):
    """The values of a chart, and the struct that they are read into."""

    chart: str
    kind: type[Struct]
    title: str


KINDS: Final[tuple[Kind[Any, Any], ...]] = (NODESET, NODESLICE, SLURMCLUSTER)
VALUES: Final[tuple[Values, ...]] = (
    Values("sunk", kind=OperatorValues, title="Values of the chart sunk"),
    Values("slurm", kind=SlurmClusterSpec, title="Values of the chart slurm"),
)
