"""Which probe Pods ask Slurm whether a configuration is good, and whether any job names a partition.

slurmctld has no way to only check. So it is started on the new files, in a Pod of its own, with a state that is thrown
away and without accounting, until it says that it runs. What it says instead is the answer. Much of the configuration is
read by slurmd alone, and a mistake there would stop every node and its jobs with it: so a slurmd is started beside it
for each kind of node, in each image that compute nodes have (`trial.sh`). slurmdbd has a way: it reads its file, asks
the database for its version, and changes nothing (`trial_slurmdbd.sh`). The queue is asked by `queue.sh`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from sunk.model import names
from sunk.model.contract import clusterobjects, keyset
from sunk.operator.slurmcluster.builders import secrets
from sunk.operator.slurmcluster.builders.metadata import CONFIGURATION, metadata
from sunk.operator.slurmcluster.builders.pods import (
    UNPRIVILEGED,
    Body,
    Object,
    as_user,
    environment,
    image,
    plain,
    secret,
    template,
)
from sunk.operator.slurmcluster.resolve import NodeDefinition, ResolvedCluster
from sunk.operator.slurmcluster.rollout.probe import DEADLINE
from sunk.operator.slurmcluster.slurmconf import gres
from sunk.operator.slurmcluster.slurmconf.conf import ETC, SLURM_CONF, SLURM_USER, fingerprint

NEW: Final = "/candidate"
_KEY: Final = f"{ETC}/slurm.key"
_PASSWORD: Final = "/password"  # noqa: S105 - a folder
_SHORT: Final = 10
_RETRY_AFTER: Final = 60.0
OURS: Final = "/etc/sunk"
"""Where compute Pods have scripts of ours, which are not in the image."""
ANYWHERE: Final = "/"
_MOST: Final = 16
"""Kinds of nodes tried in one image. Each takes a second, and all read the same files."""

_TRY: Final = Path(__file__).with_name("trial.sh").read_text()
_TRY_SLURMDBD: Final = Path(__file__).with_name("trial_slurmdbd.sh").read_text()
_QUEUE: Final = Path(__file__).with_name("queue.sh").read_text()


class Trial(Struct, frozen=True):
    """New files, where nobody else reads them, and the probe Pod that tries them."""

    at: str
    """Where in the values a person has to look."""
    candidate: Object
    pod: Object
    retry_after: float = math.inf
    """Seconds after which it is worth another try, though nothing was changed."""
    optional: bool = False
    """Whether no answer is no hindrance: an image of some nodes may not run on the Nodes of the control plane."""


class TriedNodes(Struct, frozen=True):
    """The slurmds that a trial starts in one image: one for each set of devices that nodes with that image have."""

    image: Object
    kinds: tuple[tuple[str, str], ...] = ()
    """The name of a node, and its Gres."""
    elsewhere: tuple[str, ...] = (OURS,)
    """Folders that are not in the image, so that what should lie there cannot be missed."""

    @property
    def lines(self) -> str:
        return "\n".join(f"{name} {devices}".strip() for name, devices in self.kinds[:_MOST])


NO_NODES: Final = TriedNodes(image={})


def slurm_trials(cluster: ResolvedCluster, files: Mapping[str, str], wanted: str) -> list[Trial]:
    """One in the image of slurmctld, with the nodes that have it too, and one in each other image of nodes."""
    ours = image(cluster, cluster.spec.controller.image)
    by_image = tried_nodes(cluster)
    candidate = _candidate(cluster, f"conf-{wanted[:_SHORT]}", files)
    first = _slurm_trial(cluster, candidate, ours, by_image.get(ours["image"], NO_NODES), controller=True)
    others = (nodes for reference, nodes in by_image.items() if reference != ours["image"])
    return [first, *(_slurm_trial(cluster, candidate, nodes.image, nodes, controller=False) for nodes in others)]


def _slurm_trial(
    cluster: ResolvedCluster, candidate: Object, runs: Object, nodes: TriedNodes, *, controller: bool
) -> Trial:
    variables = {
        "CANDIDATE": NEW,
        "IMAGE": runs["image"],
        "CONTROLLER": "yes" if controller else "no",
        "NODES": nodes.lines,
        "ELSEWHERE": ":".join(nodes.elsewhere),
    }
    mark = fingerprint(variables | {"candidate": candidate["metadata"]["name"]})[:_SHORT]
    volumes, mounts = _mounted(candidate)
    pod = _probe_pod(cluster, f"try-{mark}", _TRY, variables, volumes=volumes, mounts=mounts)
    pod["spec"]["containers"][0] |= runs
    return Trial("slurmConfig, compute", candidate=candidate, pod=pod, optional=not controller)


def slurmdbd_trial(cluster: ResolvedCluster, files: Mapping[str, str]) -> Trial:
    """By a question to the database that changes nothing there. Our own may be still to come, another must answer."""
    ours, password = secrets.serves_database(cluster), secrets.database(cluster)
    mark = fingerprint({**files, "password": password})[:_SHORT]
    candidate = _candidate(cluster, f"dbd-{mark}", files)
    volumes, mounts = _mounted(candidate)
    volumes.append(secret("password", secret=password, items={secrets.PASSWORD: secrets.PASSWORD}))
    mounts.append({"name": "password", "mountPath": _PASSWORD, "readOnly": True})
    variables = {
        "CANDIDATE": NEW,
        "KEY_FILE": _KEY,
        "PASSWORD_FILE": f"{_PASSWORD}/{secrets.PASSWORD}",
        "DATABASE": "ours" if ours else "theirs",
        "PATIENCE": "3" if ours else "15",
    }
    pod = _probe_pod(cluster, f"try-dbd-{mark}", _TRY_SLURMDBD, variables, volumes=volumes, mounts=mounts)
    at = "accounting.extraConfig" if ours else "accounting.external"
    return Trial(at, candidate=candidate, pod=pod, retry_after=math.inf if ours else _RETRY_AFTER)


def _candidate(cluster: ResolvedCluster, name: str, files: Mapping[str, str]) -> Object:
    at = metadata(cluster, CONFIGURATION, name=name)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": at, "data": dict(files)}


def _mounted(candidate: Object) -> tuple[list[Object], list[Object]]:
    volume = {"name": "candidate", "configMap": {"name": candidate["metadata"]["name"]}}
    return [volume], [{"name": "candidate", "mountPath": NEW, "readOnly": True}]


def queue_probe(cluster: ResolvedCluster, partitions: Sequence[str]) -> Object:
    """Goes well if no job names any of these partitions."""
    mark, (volumes, mounts) = fingerprint(dict.fromkeys(partitions, ""))[:_SHORT], _in_force(cluster)
    variables = {"PARTITIONS": ",".join(partitions)}
    return _probe_pod(cluster, f"queue-{mark}", _QUEUE, variables, volumes=volumes, mounts=mounts)


def _in_force(cluster: ResolvedCluster) -> tuple[list[Object], list[Object]]:
    """What a program needs that speaks to slurmctld."""
    volume = {"name": "conf", "configMap": {"name": cluster.named(clusterobjects.SLURM_CONF)}}
    return [volume], [{"name": "conf", "mountPath": f"{ETC}/{SLURM_CONF}", "subPath": SLURM_CONF, "readOnly": True}]


def _probe_pod(  # noqa: PLR0913 - one for each thing in which they differ
    cluster: ResolvedCluster,
    name: str,
    script: str,
    variables: Mapping[str, str],
    *,
    volumes: list[Object],
    mounts: list[Object],
) -> Object:
    key = secret("key", secret=secrets.auth(cluster), items={keyset.SLURM_KEY: keyset.SLURM_KEY})
    place = {"name": "key", "mountPath": _KEY, "subPath": keyset.SLURM_KEY, "readOnly": True}
    container: Object = {
        "name": "slurm",
        "command": ["bash", "-c", script, "probe"],
        "env": environment(variables),
        "securityContext": UNPRIVILEGED,
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        "volumeMounts": [place, *mounts],
    } | image(cluster, cluster.spec.controller.image)
    body = Body(containers=[container], volumes=[key, *volumes], security=as_user(SLURM_USER), grace=1)
    made = template(cluster, CONFIGURATION, body)
    at = metadata(cluster, CONFIGURATION, name=name)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": at | {"labels": at["labels"] | {names.PROBE: cluster.name}},
        "spec": made["spec"] | {"restartPolicy": "Never", "activeDeadlineSeconds": DEADLINE},
    }


def tried_nodes(cluster: ResolvedCluster) -> dict[str, TriedNodes]:
    """By the reference of their image."""
    by_image: dict[str, TriedNodes] = {}
    for definition in cluster.definitions:
        runs = image(cluster, definition.image, cluster.spec.compute.image)
        before = by_image.get(runs["image"], TriedNodes(image=runs))
        by_image[runs["image"]] = _with(before, cluster, definition)
    return by_image


def _with(before: TriedNodes, cluster: ResolvedCluster, definition: NodeDefinition) -> TriedNodes:
    devices = gres.gres(definition)
    known = {gres_of_kind for _, gres_of_kind in before.kinds}
    kind = () if devices in known else ((_node(cluster, definition), devices),)
    places = dict.fromkeys((*before.elsewhere, *_elsewhere(cluster, definition)))
    return replace(before, kinds=(*before.kinds, *kind), elsewhere=tuple(places))


def _node(cluster: ResolvedCluster, definition: NodeDefinition) -> str:
    """A name that a node of this definition can have: gres.conf goes by names."""
    return f"{cluster.prefix(definition)}-{'000-000' if definition.naming == 'address' else '0'}"


def _elsewhere(cluster: ResolvedCluster, definition: NodeDefinition) -> Iterator[str]:
    if cluster.spec.compute.s6:
        # A script that runs before slurmd may bring any file.
        yield ANYWHERE
    yield from (mount.name for mount in cluster.spec.compute.mounts)
    for mount in (*plain(cluster.spec.compute.volume_mounts), *definition.volume_mounts):
        if isinstance(place := mount.get("mountPath"), str):
            yield place
