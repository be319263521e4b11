"""Everything that a SlurmCluster is made of, in the order in which it should come to be."""

from collections.abc import Mapping
from itertools import chain

from sunk.operator.slurmcluster.builders import budget, networkpolicy, users
from sunk.operator.slurmcluster.builders.configmap import config_map
from sunk.operator.slurmcluster.builders.pods import Object
from sunk.operator.slurmcluster.compute import nodesets
from sunk.operator.slurmcluster.daemons import database, login, slurmctld, slurmdbd, slurmrestd, syncer
from sunk.operator.slurmcluster.slurmconf.conf import configuration
from sunk.operator.slurmcluster.view import Cluster


def objects(cluster: Cluster, *, files: Mapping[str, str] | None = None) -> tuple[Object, ...]:
    """All but Secrets, whose contents nobody may know. `files` is the configuration, if it is not the one asked for."""
    parts = (networkpolicy, users, database, slurmdbd, slurmctld, syncer, login, slurmrestd, budget, nodesets)
    first = config_map(cluster, configuration(cluster) if files is None else files)
    return (first, *chain.from_iterable(part.objects(cluster) for part in parts))
