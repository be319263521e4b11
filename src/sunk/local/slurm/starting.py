"""Start a Slurm cluster for the length of a block, and clear away what killed test runs left of theirs.

The folder of a cluster is written first and removed last, so whatever exists of a cluster can be found by it. Its
owner holds a lock on it; the kernel takes the lock back when the owner dies, however that happens. So a folder whose
lock is free is a cluster without an owner.
"""

import fcntl
import os
import secrets
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from sunk.local import paths
from sunk.local.artifacts import images
from sunk.local.kubernetes import cgroups, network as networks
from sunk.local.slurm import configuration
from sunk.local.slurm.boxes.box import alive, first_process
from sunk.local.slurm.boxes.layout import Layout
from sunk.local.slurm.boxes.machines import LAST_WORDS
from sunk.local.slurm.configuration import CONTROLLER, PARTITIONS, Node, Settings
from sunk.local.slurm.running import Slurm
from sunk.model.refusal import Refusal

OWNER: Final = "owner.lock"
PATIENCE: Final = 60.0
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
    accounting: bool = False,
    munge: bool = False,
) -> Iterator[Slurm]:
    """A real Slurm out of our image, for the length of a block.

    `nodes`: how many, or which; each has a slurmd of its own. `config`: settings of slurm.conf laid over our defaults
    (None takes one out), `lines`: its partitions, node sets and the like; `files`: what else lies in /etc/slurm, by
    name, executable where it begins with #!. `gpus`: models of which every node has the files of eight. `accounting`:
    with slurmdbd and MariaDB, and with associations, limits and QOS enforced. `munge`: by munge instead of auth/slurm.
    """
    wanted = configuration.nodes(nodes)
    if os.geteuid() != 0:
        raise Refusal(
            "a Slurm on this machine needs root (namespaces, mounts). Run this as root, for example with sudo."
        )
    with _owned() as folder:
        layout = Layout(
            cluster=folder.name, folder=folder, version=version, gpus=tuple(gpus), accounting=accounting, munge=munge
        )
        layout.make_folders()
        layout.write(config=config, lines=lines, files=files)
        cgroups.create(layout.cluster, nodes=())
        made = Slurm(layout)
        try:
            made.begin(wanted)
            yield made
        except BaseException as trouble:
            # The logs are about to be removed. Some troubles quote them already.
            if LAST_WORDS not in str(trouble):
                trouble.add_note(made.machines.words(CONTROLLER, *(node.name for node in wanted)).lstrip())
            raise
        finally:
            _kill_boxes(folder)
            made.machines.end()


def folders() -> Path:
    return paths.clusters().with_name("slurm")


@contextmanager
def _owned() -> Iterator[Path]:
    """Give a cluster's folder, locked, and remove all that the cluster has become when the block ends."""
    with alone():
        _clear_abandoned()
        folder = folders() / f"slurm-{secrets.token_hex(3)}"
        folder.mkdir()
        owner = _locked(folder / OWNER)
    with owner:
        owner.write(f"{os.getpid()}\n")
        owner.flush()
        try:
            yield folder
        finally:
            remove(folder)


def alone() -> IO[str]:
    """Keep everybody else from starting a cluster or clearing one away, until this is closed.

    One at a time: a folder that is not locked yet looks like one without an owner.
    """
    folders().mkdir(parents=True, exist_ok=True)
    return _locked(folders() / ".lock")


def clear_abandoned() -> None:
    """Remove clusters whose owners were killed."""
    with alone():
        _clear_abandoned()


def _clear_abandoned() -> None:
    for folder in folders().glob("slurm-*"):
        try:
            mark = _unowned(folder)
        except BlockingIOError:
            continue
        except FileNotFoundError:  # the last thing that goes before the folder itself
            with suppress(OSError):
                folder.rmdir()
            continue
        with mark:
            remove(folder)


def remove(folder: Path) -> None:
    """Remove everything a cluster can own: processes first, since they hold all the rest, its folder last."""
    _kill_boxes(folder)
    cgroups.kill(folder.name)
    _await_end(folder.name)
    networks.remove(folder.name)
    cgroups.remove(folder.name)
    _remove_tree(folder)
    if folder.exists():
        raise Refusal(f"{folder} cannot be removed completely. Check what is mounted below it or open, then remove it.")


def _remove_tree(folder: Path) -> None:
    """Remove the mark of the owner last: whoever finds a folder with a mark takes the rest for a cluster."""
    for each in folder.glob("*"):
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each, ignore_errors=True)
        elif each.name != OWNER:
            each.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _kill_boxes(folder: Path) -> None:
    """Kill what is in the boxes before what holds them from outside.

    A process 1 ends only when everybody in its box was reaped, and that is the duty of whoever entered from outside.
    Were those killed at the same time, it would fall to this machine's own process 1, which may take its time.
    """
    own = cgroups.processes(folder.name)
    for process in map(first_process, folder.glob("boxes/*")):
        if process in own:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
    deadline = time.monotonic() + 1.0
    while cgroups.processes(folder.name) and time.monotonic() < deadline:
        time.sleep(0.02)


def _await_end(name: str) -> None:
    """A killed process leaves its control group at once, but its namespaces and mounts only with its last breath."""
    deadline = time.monotonic() + PATIENCE
    while dying := [folder.name for folder in Path("/proc").glob("[0-9]*") if _belongs(folder, name)]:
        if time.monotonic() > deadline:
            raise Refusal(f"processes {dying} of {name} were killed but do not end. Check them with `ps`, then repeat.")
        time.sleep(0.02)


def _belongs(process: Path, name: str) -> bool:
    try:
        return f"/{cgroups.group(name)}/" in (process / "cgroup").read_text() and alive(int(process.name))
    except OSError:
        return False


def _locked(path: Path) -> IO[str]:
    """Open and lock; the lock lasts until the file is closed."""
    file = path.open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def _unowned(folder: Path) -> IO[str]:
    """The mark of a cluster's owner, locked; BlockingIOError if the owner lives."""
    file = (folder / OWNER).open("r+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        file.close()
        raise
    return file
