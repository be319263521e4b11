"""Every name that SUNK puts on objects of Kubernetes. They follow CoreWeave's, so that what reads theirs reads ours."""

from typing import Final

GROUP: Final = "sunk.coreweave.com"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

# On Nodes: whose they are. Labels, so that people can select by them; the claim is what decides.
NODESET: Final = f"{GROUP}/nodeset"
NAMESPACE: Final = f"{GROUP}/namespace"
CLUSTER: Final = f"{GROUP}/cluster"
POD: Final = f"{GROUP}/pod"
CLAIM: Final = f"{GROUP}/claim"
"""Annotation of a Node: uid of the one NodeSet that it belongs to, written with the resourceVersion that was read."""

# The lock (`sunk.model.contract.lock`): a taint of Nodes, and on Node and Pod how far it has come.
LOCK: Final = f"{GROUP}/lock"
"""Taint of a Node; annotation of Node and compute Pod: false, pending, locked or locked_strict; label of a Node with the
same value, for `kubectl get nodes -L`. Written by the Node controller; the Pod controller copies the annotation."""
LOCK_NUMBER: Final = f"{GROUP}/lock-number"
"""Annotation of Node and compute Pod: which request that state answers."""
LOCK_OWNER: Final = f"{GROUP}/lock-owner"
"""Annotation of Node and compute Pod: uid of the compute Pod that asked."""
LOCK_REQUEST: Final = f"{GROUP}/lock-request"
"""Annotation of a compute Pod: which jobs hold its Slurm node, as JSON. Written by the syncer."""
JOB_ID: Final = f"{GROUP}/job-id"
"""Annotation of a Pod that Slurm has scheduled: the job that holds its Node. Written by the scheduler before it binds."""

# On compute Pods.
NODE: Final = f"{GROUP}/node"
"""Annotation: the Node that a Pod was made for, readable also before it is bound."""
FEATURES: Final = f"{GROUP}/features"
"""Annotation: the Slurm features of the node, separated by commas."""
SHAPE: Final = f"{GROUP}/shape"
"""Annotation: the size and GPUs with which its slurmd introduces itself, as Slurm writes them; what its Node decides is
left out. If Slurm's record says otherwise, the syncer has it made again."""
PENDING_DELETION: Final = f"{GROUP}/pending-deletion"
"""Annotation: it has to go, and why. Written by the NodeSet controller; the syncer drains upon it."""
CLEAR_TO_DELETE: Final = f"{GROUP}/clear-to-delete"
"""Annotation: drained and idle by a read made for this; its value says when that was, and names the drain
(`sunk.model.contract.clearance`). Written by the syncer; the NodeSet controller takes off one that is too old."""
CORDON: Final = f"{GROUP}/cordon"
"""Annotation: its Node takes no new work, and why (may be empty). Written by the Pod controller; the syncer drains."""
KEPT_DRAIN: Final = f"{GROUP}/kept-drain"
"""Annotation: the reason of a drain that a person has put on this machine's node, to be put on again when it has left
and is back. On the Node each line begins with namespace/cluster and a colon (`sunk.model.contract.keptdrains`); the Pod
controller copies the reason for Pods of that cluster. Beyond the Node object it is kept in ConfigMaps
(`sunk.operator.keptdrains`)."""
RESTART: Final = f"{GROUP}/restart"
"""Annotation: the syncer asks for a new Pod in place of this one, since Slurm and its slurmd do not find each other: when,
in seconds, a colon, and why. The NodeSet controller heeds it while it is young (`sunk.objects.computepods`)."""
EVICTABLE: Final = f"{GROUP}/evictable"
"""Label "true": drained and idle in Slurm, so that an eviction costs no job. The disruption budget spans all others."""
ORDER: Final = f"{GROUP}/order"
"""Annotation: what a person asks of Slurm about this node, as JSON; `sunk drain` and `sunk undrain` write it."""
ORDER_DONE: Final = f"{GROUP}/order-done"
"""Annotation: what became of that order, as JSON. Written by the syncer."""
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
"""Annotation "true": delete what has to go at once, with the jobs on it."""
ACCEPT_LOSS: Final = f"{GROUP}/accept-loss"
"""Annotation: the number of members whose loss a person has looked at and means; of the ConfigMap that notes who has an
account, the number of users who may leave their groups at once."""
FINALIZER: Final = f"{GROUP}/safe-removal"

# What Slurm says of a node. Labels of Pods for dashboards, never for logic; `drain` is also an annotation of Nodes.
DRAIN: Final = f"{GROUP}/drain"
RUNNING: Final = f"{GROUP}/running"
NOT_RESPONDING: Final = f"{GROUP}/not_responding"
# The conditions that go with them, of Pods and of Nodes.
SLURM_DRAIN: Final = "SlurmDrain"
SLURM_RUNNING: Final = "SlurmRunning"
SLURM_NOT_RESPONDING: Final = "SlurmNotResponding"
SLURM_CORDON: Final = "SlurmCordon"
"""Of Nodes only: drained, and not because of Kubernetes."""
# The reasons of SlurmDrain.
FROM_SLURM: Final = "FromSlurm"
FROM_KUBERNETES: Final = "FromKubernetes"
NOT_DRAINED: Final = "NotDrained"
NOT_REGISTERED: Final = "NotRegistered"
"""Slurm has no such node."""
HPC_VERIFICATION: Final = "HPCVerification"
"""Condition of Pods: somebody has tried the machine. A pass newer than a drain with `verify-undrain` lifts it."""
CORDON_REASON: Final = "node.coreweave.cloud/cordonReason"
"""Annotation of Nodes: why it was cordoned."""

# On what the SlurmCluster controller makes.
CONFIG_HASH: Final = f"{GROUP}/config-hash"
SCRIPTS_HASH: Final = f"{GROUP}/scripts-hash"
PASSWORD_SECRET: Final = f"{GROUP}/password-secret"
CERTIFICATE_EXPIRES: Final = f"{GROUP}/certificate-expires"
"""Annotation of a ConfigMap that tells of a certificate of the hook API: when that expires."""
CERTIFICATE_PUBLISHED: Final = f"{GROUP}/certificate-published"
"""Annotation of the same ConfigMap: since when compute Pods are given the CA."""
PROBE: Final = f"{GROUP}/errand"
"""Label of Pods that try something out for the operator and go: whose they are."""
SUNK: Final = "sunk"
"""Value of app.kubernetes.io/managed-by."""

# On SlurmClusters.
ACCEPT_SUSPICION: Final = f"{GROUP}/accept-suspicion"
"""Annotation: what Slurm says is true, though it is hard to believe; its value names what, as the report does. Written by
a person, heeded once by the syncer, which says so in the status, and taken off by the operator then."""

ACCELERATOR: Final = f"{GROUP}/accelerator"
"""Extended resource: a second name of GPUs, under which compute Pods claim them."""
