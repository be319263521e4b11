"""Everything that a SlurmCluster is made of, in the order in which it should come to be.

The parts have packages of their own; here stand the two objects that belong to none of them. One is the ConfigMap with
the configuration, from which slurmctld reads it.

The other is the disruption budget: what evicts Pods (`kubectl drain`, autoscalers) gets no compute Pod that may hold a
job. The syncer labels a Pod that is drained and idle, and the budget spans all others. It is never met, so each of them
is refused for as long as it lasts. A drain of a Node cordons it first; that drains the Slurm node, and when its jobs are
over the label is there. The number is a plain one, because for a share Kubernetes would have to know the owner's scale.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Final

from sunk.model import names
from sunk.model.contract import clusterobjects
from sunk.model.contract.confighash import LINE, PARAMETER
from sunk.operator.slurmcluster.builders import users
from sunk.operator.slurmcluster.builders.metadata import COMPUTE, CONFIG_HASH, CONFIGURATION, metadata, selector
from sunk.operator.slurmcluster.builders.pods import Object, image
from sunk.operator.slurmcluster.compute import nodesets
from sunk.operator.slurmcluster.daemons import (
    database,
    directory,
    login,
    networkpolicy,
    slurmctld,
    slurmdbd,
    slurmrestd,
    syncer,
)
from sunk.operator.slurmcluster.resolve import ResolvedCluster
from sunk.operator.slurmcluster.slurmconf.conf import SLURM_CONF, configuration, fingerprint

HASH_FILE: Final = "config-hash"
"""Beside the files, so that whoever is to make Slurm read them can see which ones have reached the Pod."""
NEVER_MET: Final = 2_147_483_647


def objects(cluster: ResolvedCluster, *, files: Mapping[str, str] | None = None) -> tuple[Object, ...]:
    """All but Secrets, whose contents nobody may know. `files` is the configuration, if it is not the one asked for."""
    first = config_map(cluster, configuration(cluster) if files is None else files)
    before = (networkpolicy, users, directory, database, slurmdbd, slurmctld, syncer, login, slurmrestd)
    control_plane = chain.from_iterable(part.objects(cluster) for part in before)
    return (first, *control_plane, disruption_budget(cluster), *nodesets.objects(cluster))


def config_map(cluster: ResolvedCluster, files: Mapping[str, str]) -> Object:
    """Of these files, which need not be those that the cluster asks for now: a last good configuration stays."""
    hashed = fingerprint(files)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(cluster, CONFIGURATION, name=clusterobjects.SLURM_CONF, annotations={CONFIG_HASH: hashed}),
        "data": {**files, HASH_FILE: hashed},
    }


def marked(files: Mapping[str, str], *, cluster: ResolvedCluster) -> tuple[dict[str, str], str]:
    """The files with their hash in them (see `model.mark`), and the hash.

    The image counts too. Another slurmctld may refuse what this one takes, so the same files under another image are
    tried before they replace anything, and have to be seen in force again.
    """
    hashed = fingerprint({**files, "image": image(cluster, cluster.spec.controller.image)["image"]})
    lines = files[SLURM_CONF].splitlines()
    # The last line of that name is the one that counts.
    last = max(number for number, line in enumerate(lines) if line.startswith(LINE))
    lines[last] = f"{lines[last]},{PARAMETER}={hashed}"
    return dict(files) | {SLURM_CONF: "".join(f"{line}\n" for line in lines)}, hashed


def disruption_budget(cluster: ResolvedCluster) -> Object:
    chosen = {names.CLUSTER: cluster.name, names.COMPONENT: selector(cluster, COMPUTE)[names.COMPONENT]}
    kept = {"key": names.EVICTABLE, "operator": "NotIn", "values": ["true"]}
    spec = {"minAvailable": NEVER_MET, "selector": {"matchLabels": chosen, "matchExpressions": [kept]}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(cluster, COMPUTE),
        "spec": spec,
    }
