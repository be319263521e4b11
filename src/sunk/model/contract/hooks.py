"""The hook API of the syncer: where it is, and how prologs prove which Pod they run in.

A prolog posts to `https://<cluster>-syncer.<namespace>.svc:8443/v1/nodes/<node>/pre-hook` and waits. It shows a token of
its Pod's service account, which the kubelet renews: bound to that Pod, and good for the syncer of that cluster only.
The operator puts token, certificates and scripts into the Pods; the syncer serves.
"""

from typing import Final

from sunk.model import names
from sunk.model.contract import drains

FOLDER: Final = "/run/sunk/hooks"
"""In compute Pods: `token` and `ca.crt`, readable by root alone."""
TOKEN: Final = "token"  # noqa: S105 - the name of a file
CA: Final = "ca.crt"
SERVER_FOLDER: Final = "/run/sunk/hooks-tls"
"""In the syncer's Pod: `tls.crt` and `tls.key`."""
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"

PRE_HOOK: Final = "pre-hook"
"""Waits until other work has left the Node."""
HELLO: Final = "hello"
"""Says that this Pod reaches the syncer."""
REBOOT: Final = "reboot"
READS: Final = frozenset({HELLO})
"""Hooks that are called by GET. All others are called by POST."""

TIMED_OUT: Final = "prolog pre-hook failed (sunk:verify-undrain)"
"""Reason of the drain when other work did not leave the Node in time. It has no prefix of ours: a person or a
verification of the machine ends it."""
UNREACHED: Final = f"{drains.PREFIX} {drains.WORDS['unreached']}"
"""Reason of the drain when no syncer answered the prolog. It ends when that Pod has called again and was answered."""
PLACEHOLDER: Final = "sunk-pod:"
"""What the extra of a placeholder job begins with. Its prolog asks for the strict lock."""


def audience(namespace: str, cluster: str) -> str:
    """Of the tokens: one that was made for another cluster is of no use here."""
    return f"{names.GROUP}/{namespace}/{cluster}"


def server_name(namespace: str, cluster: str) -> str:
    """How prologs call the syncer, and what its certificate says."""
    return f"{cluster}-syncer.{namespace}.svc"
