"""The other packages: their environments, what they cost, and the record of it that later runs compare with."""

import os
import platform
import subprocess
import sys
from pathlib import Path
from statistics import median

import msgspec
from msgspec import Struct

from bench.kube.server import OURS, PROJECT, Server, heard, program
from bench.report import RESULTS
from sunk.local.artifacts import cache
from sunk.local.progress import step

REQUIREMENTS = PROJECT / "bench" / "peers" / "requirements.txt"
RECORD = RESULTS / "kube_peers.json"
PROGRAMS = {"kubernetes": "kubernetes_informer", "kopf": "kopf_index", "lightkube": "lightkube_dict"}
SLOW = "kopf"
"""Read once only and last: it takes minutes, since its time grows with the square of the number of objects."""


class Spent(Struct, frozen=True):
    """What one client took to its synced store: seconds of time and of CPU, and megabytes."""

    seconds: float
    cpu: float
    grown: float
    whole: float
    peak: float
    objects: int


class Machine(Struct, frozen=True):
    """What the figures were taken on."""

    processor: str
    cores: int
    python: str
    load: float


class Record(Struct, frozen=True):
    """The peers beside ourselves and a bare read of the stream, all in one run on one server."""

    machine: Machine
    versions: dict[str, str]
    pods: int
    bytes: int
    bare: Spent
    ours: Spent
    peers: dict[str, Spent]

    def best(self, *names: str) -> Spent:
        """The least of each figure among these peers, or all; CPU in bare reads, which compares between machines."""
        some = [spent for name, spent in self.peers.items() if not names or name in names]
        return Spent(
            seconds=min(one.seconds for one in some) / self.bare.seconds,
            cpu=min(one.cpu for one in some) / self.bare.cpu,
            grown=min(one.grown for one in some),
            whole=min(one.whole for one in some),
            peak=min(one.peak for one in some),
            objects=self.pods,
        )


def typical(runs: list[Spent]) -> Spent:
    """The median of each figure by itself."""
    return Spent(
        seconds=median(one.seconds for one in runs),
        cpu=median(one.cpu for one in runs),
        grown=median(one.grown for one in runs),
        whole=median(one.whole for one in runs),
        peak=median(one.peak for one in runs),
        objects=runs[0].objects,
    )


def spent(module: str, *arguments: str, python: str = sys.executable) -> Spent:
    return msgspec.json.decode(heard(program(module, *arguments, python=python, core=OURS)), type=Spent)


def read(server: Server, peer: str) -> Spent:
    """Have one peer read the server's Pods."""
    python = str(environment(peer) / "bin" / "python")
    return spent(f"bench.peers.{PROGRAMS[peer]}", *server.where, str(server.pods), python=python)


def environment(peer: str) -> Path:
    """Give a virtual environment with this peer alone, kept in the cache of built things."""

    def make(folder: Path) -> None:
        uv = Path(sys.executable).parent / "uv"
        with step(f"Make an environment for {peer}"):
            subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder / "env"], check=True)
            target = "--python", folder / "env" / "bin" / "python"
            wanted = (*target, "--constraints", REQUIREMENTS, peer)
            subprocess.run([uv, "pip", "install", "--quiet", *wanted], check=True)

    key = cache.key(values=(sys.version,), files=[REQUIREMENTS], root=PROJECT)
    return cache.entry(f"peer-{peer}", make, key=key) / "env"


def recorded() -> Record | None:
    return msgspec.json.decode(RECORD.read_bytes(), type=Record) if RECORD.exists() else None


def write(record: Record) -> None:
    RECORD.write_bytes(msgspec.json.format(msgspec.json.encode(record)) + b"\n")


def versions() -> dict[str, str]:
    """The pinned versions of the peers themselves."""
    pins = (line.partition(" ")[0].partition("==") for line in REQUIREMENTS.read_text().splitlines())
    return {name: version for name, _, version in pins if name in PROGRAMS}


def machine() -> Machine:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    return Machine(model, os.cpu_count() or 0, platform.python_version(), round(os.getloadavg()[0], 2))
