"""Every name that SUNK puts on objects of Kubernetes. They follow CoreWeave's, so that what reads theirs reads ours."""

from typing import Final

GROUP: Final = "sunk.coreweave.com"
VERSION: Final = "v1alpha1"

# On Nodes: whose they are. Labels, so that people can select by them; the claim is what decides.
NODESET: Final = f"{GROUP}/nodeset"
NAMESPACE: Final = f"{GROUP}/namespace"
CLUSTER: Final = f"{GROUP}/cluster"
POD: Final = f"{GROUP}/pod"
CLAIM: Final = f"{GROUP}/claim"
"""Annotation of a Node: uid of the one NodeSet that it belongs to, written with the resourceVersion that was read."""

# The lock: a taint of Nodes, and the annotation of Node and Pod that says how far it has come.
LOCK: Final = f"{GROUP}/lock"

# On compute Pods.
FEATURES: Final = f"{GROUP}/features"
"""Annotation: the Slurm features of the node, separated by commas."""
PENDING_DELETION: Final = f"{GROUP}/pending-deletion"
"""Annotation: it has to go, and why. Written by the NodeSet controller; the syncer drains upon it."""
CLEAR_TO_DELETE: Final = f"{GROUP}/clear-to-delete"
"""Annotation: drained and idle by a read made for this; its value names the drain. Written by the syncer."""
REVISION: Final = "controller-revision-hash"
"""Label: which template a Pod was made from, under the name that DaemonSets use."""
COMPONENT: Final = "app.kubernetes.io/component"
APP: Final = "app.kubernetes.io/name"
PART_OF: Final = "app.kubernetes.io/part-of"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
COMPUTE: Final = "compute"
SLURMD: Final = "slurmd"
"""Name of the container that holds jobs."""

# On NodeSets.
FORCE_DELETION: Final = f"{GROUP}/force-deletion"
"""Annotation «true»: delete what has to go at once, with the jobs on it."""
ACCEPT_LOSS: Final = f"{GROUP}/accept-loss"
"""Annotation: the number of members whose loss a person has looked at and means."""
FINALIZER: Final = f"{GROUP}/safe-removal"

ACCELERATOR: Final = f"{GROUP}/accelerator"
"""Extended resource: a second name of GPUs, under which compute Pods claim them."""
