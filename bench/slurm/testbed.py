"""The one real slurmctld of a run, with what reads it: our worker, slurmrestd, Slurm's own commands, and a C program."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bench.slurm import compiled, rest
from bench.slurm.worker import Request
from sunk.local.artifacts import images
from sunk.local.slurm import Slurm, many_nodes
from sunk.local.slurm.boxes.box import SLURM_USER, children
from sunk.local.slurm.configuration import CONTROLLER, LOGIN, TOOLS, Settings
from sunk.local.slurm.running import PYTHON

T = TypeVar("T")
HERE = Path(__file__).parent
REST = ("/usr/sbin/slurmrestd", "-s", "openapi/slurmctld", "-d", rest.VERSION, f"unix:{rest.SOCKET}")
# It answers only who has its own user, and would refuse to have that of ours.
REST_ENVIRONMENT = {"SLURMRESTD_SECURITY": "disable_user_check"}
ENVIRONMENT = {"PYTHONPATH": "/home", "PYTHONDONTWRITEBYTECODE": "1"}
COMMANDS = {"nodes": ("scontrol", "show", "nodes", "--json"), "jobs": ("squeue", "--json")}
PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")
SETTINGS: Settings = {
    "MaxJobCount": 50_000,
    # Cancelled jobs go soon, so that the table is about as large at the end of a run as in the middle.
    "MinJobAge": 2,
    # As Slurm has them by itself: the local clusters of tests look for work every second, which is no load of ours.
    "SchedulerParameters": None,
}


class Program(Struct, frozen=True):
    """A program of ours inside the cluster, which answers every line with one."""

    name: str
    started: "subprocess.Popen[str]"

    def ask(self, line: str) -> str:
        if not self.started.stdin or not self.started.stdout:
            raise SystemExit(f"{self.name} has no pipes")
        self.started.stdin.write(line + "\n")
        self.started.stdin.flush()
        if said := self.started.stdout.readline():
            return said
        words = self.started.stderr.read() if self.started.stderr else ""
        raise SystemExit(f"{self.name} ended over {line}:\n{words[-3000:]}")

    def end(self) -> None:
        if self.started.stdin:
            self.started.stdin.close()
        self.started.wait()


class Testbed(Struct, frozen=True):
    """A cluster with everything started."""

    slurm: Slurm
    worker: Program
    reader: Program
    server: "subprocess.Popen[str]"

    def ask(self, what: str, answer: type[T], **options: Any) -> T:
        """Have the worker measure something."""
        return msgspec.json.decode(self.worker.ask(msgspec.json.encode(Request(what, options)).decode()), type=answer)

    def with_new_worker(self) -> "Testbed":
        """The same with a worker that has done nothing yet. The one before ends."""
        self.worker.end()
        return replace(self, worker=_worker(self.slurm))

    def by_rest(self, table: str) -> rest.Read:
        return msgspec.json.decode(self.reader.ask(table), type=rest.Read)

    def command(self, table: str) -> rest.Read:
        """Have a command of Slurm's print a table as JSON, and decode it."""
        began = time.monotonic()
        text = self.slurm.run(*COMMANDS[table], timeout=120).encode()
        rows = rest.decode(table, text)
        return rest.Read(seconds=time.monotonic() - began, bytes=len(text), rows=rows)

    def submit_in_c(self, *, threads: int, count: int) -> float:
        return float(
            self.slurm.run("/home/bench/submit", str(threads), str(count), uid=SLURM_USER, on=TOOLS, timeout=300)
        )

    def end_rest(self) -> float:
        """End slurmrestd, and give the megabytes that it had come to."""
        held = sum(_resident(pid) for pid in (self.server.pid, *children(self.server.pid)))
        for pid in children(self.server.pid):
            os.kill(pid, signal.SIGKILL)
        self.server.wait()
        return held

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU that Slurm's daemons have taken so far."""
        pids = {"slurmctld": self.slurm.machines.daemon(CONTROLLER), "sackd": self.slurm.machines.daemon(LOGIN)}
        return {name: _cpu(pid) for name, pid in pids.items() if pid}


def _resident(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 1e6


def _cpu(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICK


@contextmanager
def running_testbed(nodes: int, *, version: str = images.DEFAULT) -> Iterator[Testbed]:
    """Start a slurmctld with so many nodes, and all that reads it."""
    program = compiled.submit(version)
    with many_nodes(nodes, version=version, config=SETTINGS) as slurm:
        _lay_out(slurm.layout.home, program, version=version)
        slurm.require_tools()
        server = slurm.spawn(*REST, uid=SLURM_USER, on=LOGIN, env=REST_ENVIRONMENT)
        socket = slurm.path(str(rest.SOCKET), on=LOGIN)
        slurm.machines.wait(socket.exists, what="the socket of slurmrestd")
        reader = slurm.spawn("python3", "-m", "bench.slurm.rest", uid=SLURM_USER, on=LOGIN, env=ENVIRONMENT)
        yield Testbed(slurm, _worker(slurm), Program("the client of slurmrestd", reader), server)


def _worker(slurm: Slurm) -> Program:
    started = slurm.spawn(PYTHON, "-m", "bench.slurm.worker", uid=SLURM_USER, on=TOOLS, env=ENVIRONMENT)
    return Program("the worker", started)


def _lay_out(home: Path, program: Path, *, version: str) -> None:
    """Put our programs where all machines of the cluster see them, and make a place for slurmrestd's socket."""
    shutil.copytree(HERE, home / "bench" / "slurm", ignore=shutil.ignore_patterns("__pycache__"))
    (home / "bench" / "__init__.py").touch()
    shutil.copy(program, home / "bench" / "submit")
    # Both images have the same Python, but only ours has the decoder.
    decoder = next(images.root_file_system("sunk", slurm=version).glob("opt/sunk/lib/python3*/site-packages/msgspec"))
    shutil.copytree(decoder, home / "msgspec")
    (home / "rest").mkdir()
    os.chown(home / "rest", SLURM_USER, SLURM_USER)
