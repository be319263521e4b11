"""How much many Pods weigh: `bench.kube.held` runs in the files of our image, and is weighed here from outside."""

import asyncio
import os
import subprocess
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.kube.server import OURS, PROJECT, Server
from bench.kube.shipped import PYTHON, image

PAGE = os.sysconf("SC_PAGE_SIZE")


class Weight(Struct, frozen=True):
    """Megabytes that the Pods added and that the process has in all; the longest of some full collections, in seconds.

    The collector also walks through all modules and classes: `pause_without` is its time before there was any Pod.
    """

    python: str
    grown: float
    whole: float
    pause: float
    pause_without: float


class _Metadata(Struct, rename="camel"):
    name: str
    uid: str
    resource_version: str


class _Spec(Struct, rename="camel"):
    node_name: str


class _Pod(Struct):
    metadata: _Metadata
    spec: _Spec


def weigh(server: Server, *, count: int) -> Weight:
    # Nothing is written into the image's files: -B, and the text of the program comes as an argument.
    text = (PROJECT / "bench" / "kube" / "held.py").read_text()
    inside = ["chroot", str(image()), PYTHON, "-B", "-c", text, str(count)]
    command = ["taskset", "-c", str(OURS), *inside]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        bare = _at(child, "bare", answer=_template(asyncio.run(server.one_pod())))
        whole = _at(child, "full")
        python, without, pause = _answered(child)
    return Weight(python, grown=whole - bare, whole=whole, pause=float(pause), pause_without=float(without))


def _template(pod: bytes) -> str:
    """Write a Pod, and what in it tells it from others, into one line."""
    found = msgspec.json.decode(pod, type=_Pod)
    name, uid, version = found.metadata.name, found.metadata.uid, found.metadata.resource_version
    return "\t".join((pod.decode(), name.removeprefix("pod-"), uid, version, found.spec.node_name)) + "\n"


def _at(child: "subprocess.Popen[str]", word: str, *, answer: str = "") -> float:
    """Wait for a word and weigh the process while it waits for ours; `answer` goes before."""
    if not child.stdin or not child.stdout:
        raise SystemExit("the program has no pipes")
    child.stdin.write(answer)
    child.stdin.flush()
    if child.stdout.readline().strip() != word:
        raise SystemExit(f'"{word}" was awaited from {PYTHON} in the image; its words stand above')
    megabytes = int(Path(f"/proc/{child.pid}/statm").read_text().split()[1]) * PAGE / 1e6
    child.stdin.write("go\n")
    child.stdin.flush()
    return megabytes


def _answered(child: "subprocess.Popen[str]") -> list[str]:
    return child.stdout.readline().split() if child.stdout else []
