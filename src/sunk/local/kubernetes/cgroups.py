"""Every process of a cluster lives in control groups of that cluster; so all of them can be found and ended.

    sunk.<name>/daemons        what `up` starts: etcd, API server, kubelets, and what they start (container shims)
    sunk.<name>/<node>         the kubelet's cgroup root: the Pods of that node

A process cannot leave these by forking or by losing its parent, so nothing escapes `down`, also when every process
that could have known about it was killed. Works on the unified hierarchy (v2) and on v1 with any set of controllers.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sunk.local.naming import checked_name
from sunk.model.refusal import Refusal

MOUNT = Path("/sys/fs/cgroup")
PATIENCE = 20.0


def group(cluster: str) -> str:
    return f"sunk.{checked_name(cluster)}"


def create(cluster: str, *, nodes: tuple[str, ...]) -> None:
    for hierarchy in hierarchies():
        for child in ("daemons", *nodes):
            folder = hierarchy / group(cluster) / child
            folder.mkdir(parents=True, exist_ok=True)
            _inherit_cpus(folder.parent)
            _inherit_cpus(folder)


def join_command(cluster: str) -> str:
    """Shell text by which a process puts itself, and so all it will ever start, into the cluster's group."""
    files = (hierarchy / group(cluster) / "daemons" / "cgroup.procs" for hierarchy in hierarchies())
    return "; ".join(f"echo $$ > {file}" for file in files)


def processes(cluster: str) -> set[int]:
    found: set[int] = set()
    for folder in _folders(cluster):
        with suppress(OSError):
            found.update(int(line) for line in (folder / "cgroup.procs").read_text().split())
    return found - {0}


def kill(cluster: str) -> int:
    """End every process of the cluster and give how many there were. Some may fork meanwhile, so look again."""
    ended: set[int] = set()
    deadline = time.monotonic() + PATIENCE
    while living := processes(cluster):
        if time.monotonic() > deadline:
            raise Refusal(
                f"processes {sorted(living)} of cluster {cluster} were killed but are stuck in the kernel. "
                "Check them with `ps`, then repeat `sunk local down`."
            )
        for process in living:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        ended |= living
        time.sleep(0.02)
    return len(ended)


def remove(cluster: str) -> None:
    for folder in _folders(cluster):
        _remove_folder(folder)


def exists(cluster: str) -> bool:
    return any(_folders(cluster))


def hierarchies() -> list[Path]:
    if (MOUNT / "cgroup.controllers").exists():
        return [MOUNT]
    # v1, or v1 with an empty v2 beside it. Links such as cpu,cpuacct -> cpu would name one hierarchy twice.
    return sorted(each for each in MOUNT.iterdir() if each.is_dir() and not each.is_symlink())


def _folders(cluster: str) -> Iterator[Path]:
    """Give the cluster's folders in all hierarchies, children before parents."""
    for hierarchy in hierarchies():
        for folder, _, _ in os.walk(hierarchy / group(cluster), topdown=False):
            yield Path(folder)


def _remove_folder(folder: Path) -> None:
    # A group stays busy for a moment after its last process was reaped.
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError as busy:
            if time.monotonic() > deadline:
                raise Refusal(f"{folder} cannot be removed: {busy.strerror}. Repeat `sunk local down`.") from busy
            time.sleep(0.02)
        else:
            return


def _inherit_cpus(folder: Path) -> None:
    """On v1 a new cpuset is empty, and no process may enter it before it has CPUs and memory nodes."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        file = folder / name
        if file.exists() and not file.read_text().strip():
            with suppress(OSError):
                file.write_text((folder.parent / name).read_text())
