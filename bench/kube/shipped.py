"""Run a program of the bench with what is shipped: the interpreter, the libraries and the code in our image.

Python as a distribution builds it does the same work in less time than one that was built in passing, and uvloop need
not be installed here. The files of the image are shared and never written to: the bench and the kubeconfig are laid
over them in a mount namespace of the program's own.
"""

import subprocess
from functools import cache
from pathlib import Path

from bench.kube.server import PROJECT, Server
from sunk.local.artifacts import images

PYTHON = "/opt/sunk/bin/python3"
ENTER = """
root=$1 project=$2 cluster=$3; shift 3
mount --bind "$project" "$root/mnt" && mount --bind "$cluster" "$root/srv" && mount --bind /proc "$root/proc" || exit
exec chroot "$root" env PYTHONPATH=/mnt "$0" -B -m "$@"
"""


def program(server: Server, module: str, *arguments: str, core: int | None = None) -> "subprocess.Popen[bytes]":
    """Start a program in the image, on one core if that is named; its first two arguments say where the server is."""
    kubeconfig, namespace = server.where
    pinned = ["taskset", "-c", str(core)] if core is not None else []
    enter = ["unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER, PYTHON]
    places = [str(image()), str(PROJECT), str(Path(kubeconfig).parent)]
    what = [module, f"/srv/{Path(kubeconfig).name}", namespace, *arguments]
    return subprocess.Popen([*pinned, *enter, *places, *what], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@cache
def image() -> Path:
    """Give one image for a whole run, whatever becomes of its sources meanwhile."""
    return images.root_file_system("sunk")
