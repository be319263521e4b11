"""What a syncer writes on objects of Kubernetes, and nobody else does.

The admission policies of the chart `sunk` (`templates/syncerpolicy.yaml`) refuse all else that its account tries. So a
syncer that is to write something new needs it here and there; a test compares the two. Of the SlurmCluster it writes
`sunk.model.cluster.kind.OF_SYNCER`.
"""

from typing import Final

from sunk.model import names

POD_LABELS: Final = (names.DRAIN, names.RUNNING, names.NOT_RESPONDING, names.EVICTABLE)
POD_ANNOTATIONS: Final = (names.CLEAR_TO_DELETE, names.RESTART, names.ORDER_DONE)
POD_CONDITIONS: Final = (names.SLURM_DRAIN, names.SLURM_RUNNING, names.SLURM_NOT_RESPONDING)
ACCOUNT_SUFFIX: Final = "-sunk-syncer"
"""Behind the name of the cluster, in the name of a syncer's account. By it policies know them, in all namespaces where
the operator is at work; so it is a name that no account of somebody else's has by chance."""
