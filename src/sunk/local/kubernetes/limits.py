"""Limits of this machine that a cluster would meet without a word.

A kubelet that gets no inotify instance goes on without it, and notices neither static Pods nor new certificates; other
programs of the same user die, or hang. Root has 128 of them on most machines, and all clusters share these.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from sunk.model.refusal import Refusal

LIMIT: Final = Path("/proc/sys/fs/inotify/max_user_instances")
INSTANCE: Final = "anon_inode:inotify"
OF_CLUSTER: Final = 8
"""API server, controller-manager and agent have about five."""
OF_NODE: Final = 8
"""A kubelet has six and its containerd one, and Pods of root count too."""
AMPLE: Final = 1024


def require_instances(nodes: int) -> None:
    """Refuse a cluster of so many nodes where it would run out of inotify instances."""
    try:
        limit = int(LIMIT.read_text())
    except (OSError, ValueError):
        return
    needed, used = OF_CLUSTER + OF_NODE * nodes, in_use()
    if used + needed > limit:
        enough = max(AMPLE, 2 * (used + needed))
        raise Refusal(
            f"a cluster of {nodes} nodes takes about {needed} inotify instances. Root may have {limit} on this machine "
            f"and already has {used}. Raise the limit: sysctl -w fs.inotify.max_user_instances={enough}"
        )


def in_use() -> int:
    """How many root has now."""
    found = 0
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):  # it may end while it is looked at
                found += _of(process) if process.stat().st_uid == 0 else 0
    return found


def _of(process: Path) -> int:
    total = 0
    for file in (process / "fd").iterdir():
        with suppress(OSError):
            total += os.readlink(file) == INSTANCE  # noqa: PTH115 - as text: it is no path
    return total
