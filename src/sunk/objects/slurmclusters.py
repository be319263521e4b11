"""The resource that the SlurmCluster controller keeps, and what its syncer says on it."""

from typing import Final

from sunk.kube.custom import Custom, resource
from sunk.model.cluster.kind import SLURMCLUSTER, SlurmClusterSpec, SlurmClusterStatus
from sunk.model.contract.report import Report

SlurmCluster = Custom[SlurmClusterSpec, SlurmClusterStatus]

SLURMCLUSTERS: Final = resource(SLURMCLUSTER)


def report(cluster: SlurmCluster) -> Report | None:
    """What the syncer has said; None if it has said nothing yet."""
    return cluster.status.syncer
