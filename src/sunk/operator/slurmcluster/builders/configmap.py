"""The configuration as a ConfigMap, from which slurmctld reads it."""

from collections.abc import Mapping
from typing import Any, Final

from sunk.model.contract import clusterobjects
from sunk.operator.slurmcluster.builders.metadata import CONFIG_HASH, CONFIGURATION, metadata
from sunk.operator.slurmcluster.slurmconf.conf import fingerprint
from sunk.operator.slurmcluster.view import Cluster

HASH_FILE: Final = "config-hash"
"""Beside the files, so that whoever is to make Slurm read them can see which ones have reached the Pod."""


def config_map(cluster: Cluster, files: Mapping[str, str]) -> dict[str, Any]:
    """Of these files, which need not be those that the cluster asks for now: a last good configuration stays."""
    found = fingerprint(files)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(cluster, CONFIGURATION, name=clusterobjects.SLURM_CONF, annotations={CONFIG_HASH: found}),
        "data": {**files, HASH_FILE: found},
    }
