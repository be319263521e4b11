"""Host keys of sshd, and how ssh knows a compute node by its key.

All login Pods have the same keys, and all compute Pods have the same other ones: people are behind one Service, and a node
whose Pod is new must not look like an impostor. The private keys are root's alone. Login and compute Pods also have the
public keys of the nodes, whether nodes can be logged in to or not: whoever allows it later must not have to replace the
login Pods.
"""

from typing import Final

from sunk.model.contract import people
from sunk.operator.slurmcluster.builders import keyfiles, pods
from sunk.operator.slurmcluster.builders.pods import Object
from sunk.operator.slurmcluster.resolve import ResolvedCluster

SSH: Final = "ssh"
SSH_PORT: Final = 22
NAME: Final = "host-keys"
_NODES: Final = "node-keys"
PUBLIC: Final = 0o444
MOUNTS: Final[tuple[Object, ...]] = (
    {"name": NAME, "mountPath": people.HOST_KEYS_FOLDER, "readOnly": True},
    {"name": _NODES, "mountPath": people.NODE_KEYS_FOLDER, "readOnly": True},
)


def volumes(cluster: ResolvedCluster, secret: str) -> list[Object]:
    """Of a Pod whose host keys are in this Secret; `MOUNTS` are their places."""
    own = pods.secret(NAME, secret=cluster.named(secret), mode=keyfiles.OWNER_ONLY)
    files = [f"{file}.pub" for file in people.HOST_KEY_FILES]
    nodes = pods.secret(
        _NODES, secret=cluster.named(people.NODE_KEYS), items={file: file for file in files}, mode=PUBLIC
    )
    nodes["secret"]["optional"] = True
    return [own, nodes]
