"""Key files: mode 0400, in memory, owned by the daemon that reads them.

Kubernetes gives the files of a Secret to root. A daemon that is not root could read them through the Pod's fsGroup, but
then a group can read them too, and the kubelet changes group and mode of every file on every claim of the Pod: on a
login Pod those are the homes of people. So a small container beside the daemon copies the keys to where the daemon
looks for them. It goes on looking, because a Secret that changes must reach daemons that keep running: that is how the
key of Slurm is rotated. slurmd is root and keeps its Secret as it is.
"""

from pathlib import Path
from typing import Any, Final

from sunk.model.cluster.parts import Image
from sunk.model.contract.keyset import SLURM_JWKS, SLURM_KEY
from sunk.operator.slurmcluster.builders import pods
from sunk.operator.slurmcluster.resolve import ResolvedCluster
from sunk.operator.slurmcluster.slurmconf.conf import KEYS

NAME: Final = "keys"
OWNER_ONLY: Final = 0o400
_SECRETS: Final = "/etc/sunk/secrets"

# A file is complete before it gets its name: a daemon may read it at any moment. Only the sum of what was copied is
# compared, since root without capabilities cannot read what it has given away.
_COPY: Final = Path(__file__).with_name("keyfiles.sh").read_text()
# The daemons start when this has ended.
_COPIED: Final = f"until [ -e {KEYS}/.copied ]; do sleep 0.05; done"


def container(cluster: ResolvedCluster, image: Image, *, owner: int | None = None) -> pods.Object:
    """Copies the keys before anything else starts, and again when they change. `owner` is for Pods of root."""
    security: dict[str, Any] = dict(pods.UNPRIVILEGED)
    if owner is not None:
        security["capabilities"] = {"drop": ["ALL"], "add": ["CHOWN"]}
    return {
        "name": NAME,
        "restartPolicy": "Always",
        **pods.image(cluster, image),
        "command": ["/bin/bash", "-c", _COPY],
        "env": pods.environment({} if owner is None else {"OWNER": str(owner)}),
        "lifecycle": {"postStart": {"exec": {"command": ["/bin/bash", "-c", _COPIED]}}},
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        "securityContext": security,
        "volumeMounts": [
            {"name": "secrets", "mountPath": _SECRETS, "readOnly": True},
            {"name": NAME, "mountPath": KEYS},
        ],
    }


def volumes(*secrets: str, group: bool = True) -> list[pods.Object]:
    """The Secrets as Kubernetes has them, and where the copies lie. `group`: the Pod has an fsGroup that may read."""
    sources = [{"secret": {"name": name}} for name in secrets]
    mode = 0o440 if group else OWNER_ONLY
    return [
        {"name": "secrets", "projected": {"defaultMode": mode, "sources": sources}},
        {"name": NAME, "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
    ]


def mount(path: str = KEYS) -> pods.Object:
    return {"name": NAME, "mountPath": path, "readOnly": True}


def variables(folder: str = KEYS) -> dict[str, str]:
    """Where daemons look for the keys of Slurm.

    Unless told they look beside their configuration, which slurmctld sends to another folder. 24.11 remembers for its
    next start which file it found at its first, and would not look for the second one any more.
    """
    return {"SLURM_SACK_KEY": f"{folder}/{SLURM_KEY}", "SLURM_SACK_JWKS": f"{folder}/{SLURM_JWKS}"}
