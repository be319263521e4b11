"""The disruption budget: what evicts Pods (`kubectl drain`, autoscalers) gets no compute Pod that may hold a job.

The syncer labels a Pod that is drained and idle, and the budget spans all others. It is never met, so each of them is
refused for as long as it lasts. A drain of a Node cordons it first; that drains the Slurm node, and when its jobs are
over the label is there. The number is a plain one, because for a share Kubernetes would have to know the owner's scale.
"""

from typing import Final

from sunk.model import names
from sunk.operator.slurmcluster.builders.metadata import COMPUTE, metadata, selector
from sunk.operator.slurmcluster.builders.pods import Object
from sunk.operator.slurmcluster.view import Cluster

NEVER_MET: Final = 2_147_483_647


def objects(cluster: Cluster) -> tuple[Object, ...]:
    chosen = {names.CLUSTER: cluster.name, names.COMPONENT: selector(cluster, COMPUTE)[names.COMPONENT]}
    kept = {"key": names.EVICTABLE, "operator": "NotIn", "values": ["true"]}
    spec = {"minAvailable": NEVER_MET, "selector": {"matchLabels": chosen, "matchExpressions": [kept]}}
    meta = metadata(cluster, COMPUTE)
    return ({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec},)
