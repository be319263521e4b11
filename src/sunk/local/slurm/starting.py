"""Start a Slurm cluster for the length of a block, and clear away what killed test runs left of theirs.

The folder of a cluster is written first and removed last, so whatever exists of a cluster can be found by it. Its
owner holds a lock on it; the kernel takes the lock back when the owner dies, however that happens. So a folder whose
lock is free is a cluster without an owner.
"""

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from sunk.local import cgroups, images, network as networks, paths
from sunk.local.slurm import configuration
from sunk.local.slurm.configuration import CONTROLLER, PARTITIONS, Node, Settings
from sunk.local.slurm.layout import Layout
from sunk.local.slurm.running import Slurm
from sunk.model.refusal import Refusal

OWNER: Final = "owner.lock"
_NOTHING: Final[Mapping[str, str]] = {}


@contextmanager
def cluster(  # noqa: PLR0913 (each stands for itself and has a default)
    *,
    nodes: int | Sequence[Node | str] = 0,
    version: str = images.DEFAULT,
    config: Settings = _NOTHING,
    lines: Sequence[str] = PARTITIONS,
    files: Mapping[str, str] = _NOTHING,
    gpus: Sequence[str] = (),
) -> Iterator[Slurm]:
    """A real Slurm out of our image, for the length of a block.

    `nodes`: how many, or which; each has a slurmd of its own. `config`: settings of slurm.conf laid over our defaults
    (None takes one out), `lines`: its partitions, node sets and the like; `files`: what else lies in /etc/slurm, by
    name, executable where it begins with #!. `gpus`: models of which every node has the files of eight.
    """
    wanted = configuration.nodes(nodes)
    if os.geteuid() != 0:
        raise Refusal("a Slurm on this machine needs root (namespaces, mounts). Run this as root, for example with sudo.")
    with _owned() as folder:
        layout = Layout(cluster=folder.name, folder=folder, version=version, gpus=tuple(gpus))
        layout.make_folders()
        layout.write(config=config, lines=lines, files=files)
        cgroups.create(layout.cluster, nodes=())
        made = Slurm(layout)
        try:
            made.begin(wanted)
            yield made
        except BaseException as trouble:
            # The logs are about to be removed.
            trouble.add_note(made.machines.words(CONTROLLER, *(node.name for node in wanted)).lstrip())
            raise


def folders() -> Path:
    return paths.clusters().with_name("slurm")


@contextmanager
def _owned() -> Iterator[Path]:
    """Give a cluster's folder, locked, and remove all that the cluster has become when the block ends."""
    folders().mkdir(parents=True, exist_ok=True)
    # One at a time: a folder that is not locked yet looks like one without an owner.
    with _locked(folders() / ".lock", wait=True):
        clear_abandoned()
        folder = folders() / f"slurm-{secrets.token_hex(3)}"
        folder.mkdir()
        owner = _locked(folder / OWNER, wait=True)
    with owner:
        try:
            yield folder
        finally:
            remove(folder)


def clear_abandoned() -> None:
    """Remove clusters whose owners were killed."""
    for folder in folders().glob("slurm-*"):
        try:
            with _locked(folder / OWNER, wait=False):
                remove(folder)
        except BlockingIOError:
            continue


def remove(folder: Path) -> None:
    """Remove everything a cluster can own: processes first, since they hold all the rest, its folder last."""
    cgroups.kill(folder.name)
    networks.remove(folder.name)
    cgroups.remove(folder.name)
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        raise Refusal(f"{folder} cannot be removed whole. Look at what is mounted below it or held open, then remove it.")


def _locked(path: Path, *, wait: bool) -> IO[str]:
    """Open and lock; the lock lasts until the file is closed."""
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        file.close()
        raise
    return file
