"""What a syncer writes on objects of Kubernetes, and nobody else does.

The admission policies of the chart `sunk` (`templates/syncerpolicy.yaml`) refuse all else that its account tries. So a
syncer that is to write something new needs it here and there; a test compares the two. Of the SlurmCluster it writes
`sunk.model.cluster.kind.OF_SYNCER`.
"""

from typing import Final

from sunk.model import names

LABEL_OF_CONDITION: Final = {
    names.SLURM_DRAIN: names.DRAIN,
    names.SLURM_RUNNING: names.RUNNING,
    names.SLURM_NOT_RESPONDING: names.NOT_RESPONDING,
}
"""The conditions of compute Pods, each with the label that repeats it; that of the drain first. Nodes show them too."""
POD_CONDITIONS: Final = tuple(LABEL_OF_CONDITION)
POD_LABELS: Final = (*LABEL_OF_CONDITION.values(), names.EVICTABLE)
POD_ANNOTATIONS: Final = (names.CLEAR_TO_DELETE, names.RESTART, names.ORDER_DONE, names.LOCK_REQUEST)
ACCOUNT_SUFFIX: Final = "-sunk-syncer"
"""Behind the name of the cluster, in the name of a syncer's account. By it policies know them, in all namespaces where
the operator is at work; so it is a name that no account of somebody else's has by chance."""
