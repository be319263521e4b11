"""Images on every node, without importing them on every node.

Unpacking the images takes containerd many seconds and has the same result each time. So it is done once, into the
root folder of a containerd that runs for this alone, and that folder is kept in the cache. A node starts with a copy
made of hard links: a second for hundreds of megabytes. Layers are only ever read (they lie below a container's own
writable layer), so sharing their files is safe; the small databases are copied for real.
"""

import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sunk.local.artifacts import cache
from sunk.local.shell import run, works
from sunk.model.refusal import Refusal

NAMESPACE = "k8s.io"
IMPORT_TIMEOUT = 600.0
PATIENCE = 30.0

CONFIG = """\
version = 2
root = "{root}"
state = "{state}"
oom_score = 0
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "{socket}"
"""


def template(archives: Sequence[Path]) -> Path | None:
    """Give a containerd root folder that holds these images, unpacked; none for no images.

    Each stands on the one without its last image, so those that change often go last: only they are unpacked again.
    """
    if not archives:
        return None
    below = template(archives[:-1])

    def unpack(folder: Path) -> None:
        if below:
            plant(below, target=folder / "root")
        with _containerd(folder) as socket:
            load(archives[-1], socket=socket)

    name = f"containerd-{len(archives)}"
    return cache.entry(name, unpack, key=cache.key(values=map(str, archives))) / "root"


def load(archive: Path, *, socket: Path) -> None:
    run(["ctr", "--address", socket, "--namespace", NAMESPACE, "images", "import", archive], timeout=IMPORT_TIMEOUT)


def plant(source: Path, *, target: Path) -> None:
    """Copy a template to a node."""
    if not works(["cp", "--archive", "--link", source, target]):
        # Links do not cross disks. A full copy is slower and just as good.
        shutil.rmtree(target, ignore_errors=True)
        run(["cp", "--archive", source, target], timeout=IMPORT_TIMEOUT)
        return
    for database in source.glob("*/*.db"):
        own = target / database.relative_to(source)
        own.unlink()
        shutil.copy2(database, own)


@contextmanager
def _containerd(folder: Path) -> Iterator[Path]:
    """Run a containerd of this process alone, with its root in `folder`."""
    scratch = folder / "scratch"
    scratch.mkdir()
    socket, config = scratch / "socket", scratch / "config.toml"
    config.write_text(CONFIG.format(root=folder / "root", state=scratch / "state", socket=socket))
    log = (scratch / "log").open("wb")
    process = subprocess.Popen(["containerd", "--config", config], stdout=log, stderr=log)
    try:
        _await_socket(socket, process=process, log=scratch / "log")
        yield socket
    finally:
        process.terminate()
        process.wait(PATIENCE)
        log.close()
        shutil.rmtree(scratch)


def _await_socket(socket: Path, *, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not works(["ctr", "--address", socket, "version"]):
        if process.poll() is not None or time.monotonic() > deadline:
            raise Refusal(f"containerd does not start: {log.read_text(errors='replace')[-600:]}")
        time.sleep(0.1)
