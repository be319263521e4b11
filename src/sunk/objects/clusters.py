"""The resource that the SlurmCluster controller keeps."""

from typing import Final

from sunk.kube.custom import Custom, resource
from sunk.model.cluster.kind import SLURMCLUSTER, SlurmClusterSpec, SlurmClusterStatus

SlurmCluster = Custom[SlurmClusterSpec, SlurmClusterStatus]

SLURMCLUSTERS: Final = resource(SLURMCLUSTER)
