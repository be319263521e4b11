"""Start a daemon of a cluster: in its control group and namespaces, with a log file, independent of who started it."""

import os
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from sunk.local.kubernetes import cgroups
from sunk.local.kubernetes.network import NAMESPACES
from sunk.model.refusal import Refusal

LAST_LINES = 12


class Daemon(msgspec.Struct, frozen=True):
    """One long-lived process: what to run and where."""

    name: str
    command: tuple[str, ...]
    network: str
    """Name of the network namespace."""
    mounts: int | None = None
    """A process whose mount namespace to share; none: this machine's."""


class Home(msgspec.Struct, frozen=True):
    """Where a cluster's daemons leave their pids and logs."""

    cluster: str
    folder: Path

    def log(self, name: str) -> Path:
        return self.folder / "log" / f"{name}.log"

    def pid_file(self, name: str) -> Path:
        return self.folder / "pid" / name


def start(daemon: Daemon, *, home: Home, env: Mapping[str, str] | None = None) -> int:
    """Start it and give its process id, which is kept in the cluster's folder too."""
    for file in (home.log(daemon.name), home.pid_file(daemon.name)):
        file.parent.mkdir(parents=True, exist_ok=True)
    mounts = [f"--mount=/proc/{daemon.mounts}/ns/mnt"] if daemon.mounts else []
    enter = ["nsenter", f"--net={NAMESPACES / daemon.network}", *mounts, *daemon.command]
    # The shell joins the group before anything else runs, so there is no moment in which a child could be outside;
    # and it leaves at once, so that the daemon is nobody's child and no zombie when it ends.
    text = f"{cgroups.join_command(home.cluster)}; {shlex.join(enter)} >&2 & echo $!"
    with home.log(daemon.name).open("ab") as log:
        started = subprocess.run(
            ["/bin/sh", "-ec", text],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, **(env or {})},
            cwd="/",
            start_new_session=True,
            check=True,
        )
    home.pid_file(daemon.name).write_text(started.stdout)
    return int(started.stdout)


def running(home: Home) -> dict[str, int]:
    """Daemons that live, by name. A pid that was given to somebody else is told by its control group."""
    own = cgroups.processes(home.cluster)
    pids = {file.name: int(file.read_text() or 0) for file in (home.folder / "pid").glob("*")}
    return {name: pid for name, pid in sorted(pids.items()) if pid in own}


def dead(home: Home) -> list[str]:
    known = {file.name for file in (home.folder / "pid").glob("*")}
    return sorted(known - running(home).keys())


def wait(ready: Callable[[], bool], *, what: str, home: Home, timeout: float) -> None:
    """Wait until `ready` holds; a daemon that dies meanwhile ends the wait with its last words."""
    deadline = time.monotonic() + timeout
    while not ready():
        if ended := dead(home):
            raise Refusal(f"{ended[0]} ended while waiting for {what}:\n{last_words(home, ended[0])}")
        if time.monotonic() > deadline:
            raise Refusal(f"timed out after {timeout:.0f} s waiting for {what}. The logs are in {home.folder / 'log'}.")
        time.sleep(0.05)


def last_words(home: Home, name: str) -> str:
    lines = home.log(name).read_text(errors="replace").splitlines()
    return "\n".join(f"  {line[:300]}" for line in lines[-LAST_LINES:])
