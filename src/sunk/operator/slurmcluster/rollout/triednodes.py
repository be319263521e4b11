"""Which slurmds a trial of a configuration starts: one for each image and each set of devices that nodes have."""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from sunk.operator.slurmcluster.builders.pods import Object, image, plain
from sunk.operator.slurmcluster.slurmconf import gres
from sunk.operator.slurmcluster.view import Cluster, NodeDefinition

OURS: Final = "/etc/sunk"
"""Where compute Pods have scripts of ours, which are not in the image."""
ANYWHERE: Final = "/"
_MOST: Final = 16
"""Kinds of nodes tried in one image. Each takes a second, and all read the same files."""


class TriedNodes(Struct, frozen=True):
    """Nodes of one image."""

    image: Object
    kinds: tuple[tuple[str, str], ...] = ()
    """The name of a node, and its Gres."""
    elsewhere: tuple[str, ...] = (OURS,)
    """Folders that are not in the image, so that what should lie there cannot be missed."""

    @property
    def lines(self) -> str:
        return "\n".join(f"{name} {devices}".strip() for name, devices in self.kinds[:_MOST])


NOTHING: Final = TriedNodes(image={})


def tried_nodes(cluster: Cluster) -> dict[str, TriedNodes]:
    """By the reference of their image."""
    found: dict[str, TriedNodes] = {}
    for one in cluster.definitions:
        runs = image(cluster, one.image, cluster.spec.compute.image)
        before = found.get(runs["image"], TriedNodes(image=runs))
        found[runs["image"]] = _with(before, cluster, one)
    return found


def _with(before: TriedNodes, cluster: Cluster, definition: NodeDefinition) -> TriedNodes:
    devices = gres.gres(definition)
    known = {each for _, each in before.kinds}
    kind = () if devices in known else ((_node(cluster, definition), devices),)
    places = dict.fromkeys((*before.elsewhere, *_elsewhere(cluster, definition)))
    return replace(before, kinds=(*before.kinds, *kind), elsewhere=tuple(places))


def _node(cluster: Cluster, definition: NodeDefinition) -> str:
    """A name that a node of this definition can have: gres.conf goes by names."""
    return f"{cluster.prefix(definition)}-{'000-000' if definition.naming == 'address' else '0'}"


def _elsewhere(cluster: Cluster, definition: NodeDefinition) -> Iterator[str]:
    if cluster.spec.compute.s6:
        # A script that runs before slurmd may bring any file.
        yield ANYWHERE
    yield from (one.name for one in cluster.spec.compute.mounts)
    for mount in (*plain(cluster.spec.compute.volume_mounts), *definition.volume_mounts):
        if isinstance(place := mount.get("mountPath"), str):
            yield place
