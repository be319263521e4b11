"""Everything that a SlurmCluster is made of, in the order in which it should come to be."""

from collections.abc import Mapping
from itertools import chain

from sunk.operator.slurmcluster import (
    budget,
    compute,
    database,
    login,
    networkpolicy,
    slurmctld,
    slurmdbd,
    slurmrestd,
    syncer,
    users,
)
from sunk.operator.slurmcluster.conf import configuration
from sunk.operator.slurmcluster.configmap import config_map
from sunk.operator.slurmcluster.pods import Object
from sunk.operator.slurmcluster.view import Cluster


def objects(cluster: Cluster, *, files: Mapping[str, str] | None = None) -> tuple[Object, ...]:
    """All but Secrets, whose contents nobody may know. `files` is the configuration, if it is not the one asked for."""
    parts = (networkpolicy, users, database, slurmdbd, slurmctld, syncer, login, slurmrestd, budget, compute)
    first = config_map(cluster, configuration(cluster) if files is None else files)
    return (first, *chain.from_iterable(part.objects(cluster) for part in parts))
