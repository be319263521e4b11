"""The boxes of one cluster and the daemons in them: start, stop, kill, and enter with a command."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from sunk.local.kubernetes import cgroups
from sunk.local.kubernetes.process import Daemon, Home, dead, last_words, start
from sunk.local.slurm.boxes import box as boxes
from sunk.local.slurm.boxes.box import Box
from sunk.model.refusal import Refusal

PATIENCE: Final = 90.0
END_PATIENCE: Final = 130.0
"""Seconds in which a daemon ends that was told to: a slurmd waits up to 120 s for what its threads have begun."""
INTERVAL: Final = 0.03
HEARD: Final = 8.0
"""Seconds in which a daemon that heard a signal has ended, mostly."""
LAST_WORDS: Final = "Last words of"


class CommandResult(msgspec.Struct, frozen=True):
    """How a command ended."""

    code: int
    out: str
    err: str


class Machines:
    """Boxes by name. Each has at most one daemon, which is called by the name of its box."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.boxes: dict[str, Box] = {}
        self._daemons: dict[str, tuple[str, ...]] = {}
        self._spawned: list[subprocess.Popen[str]] = []

    def add(self, box: Box, *, daemon: Sequence[str] = ()) -> None:
        boxes.prepare(box)
        self.boxes[box.name] = box
        self._daemons[box.name] = tuple(daemon)

    def up(self, *names: str) -> None:
        """Make the boxes that are down. Many at a time: each waits a little for the kernel."""
        down = [each for each in map(self._box, names) if each.process() is None]
        for each in down:
            start(boxes.anchor(each), home=self.home)
        for each in down:
            self.wait(partial(_is_up, each), what=f"the mounts of {each.name}")

    def start(self, *names: str) -> None:
        """Start the daemons of these boxes, and the boxes where they are down."""
        self.up(*names)
        for name in names:
            if self.daemon(name) is not None:
                raise Refusal(f"the daemon of {name} is already running. Stop or kill it before you start it again.")
            command = self._inside(name, self._daemons[name])
            start(Daemon(name=name, command=command, network=self.boxes[name].network), home=self.home)

    def daemon(self, name: str) -> int | None:
        """The daemon's process as this machine numbers it. What we started is nsenter; the daemon is its child."""
        file = self.home.pid_file(self._box(name).name)
        inner = boxes.children(int(file.read_text())) if file.exists() else ()
        return inner[0] if inner else None

    def listens(self, name: str, port: int) -> bool:
        """Whether something on that machine listens; asked of the kernel, so that nobody is disturbed by it."""
        process = self.daemon(name)
        return process is not None and boxes.listens(process, port)

    def stop(self, name: str, *, with_signal: int = signal.SIGTERM) -> None:
        """End the daemon alone; what it started lives on in its box, as under s6 in a Pod."""
        process = self.daemon(name)
        if process is None:
            raise Refusal(f"{name} has no running daemon to stop. `start` starts one.")
        outer = int(self.home.pid_file(name).read_text())
        deadline = time.monotonic() + PATIENCE
        while boxes.alive(process) and time.monotonic() < deadline:
            # Again: a daemon that reads its configuration becomes another program, and drops what comes meanwhile.
            with suppress(ProcessLookupError):
                os.kill(process, with_signal)
            self._wait_for_end(process, seconds=HEARD)
        self._end(name, processes=(process, outer))

    def kill(self, name: str) -> None:
        """End the daemon and everything else in its box at once, as when a Pod or its machine is lost."""
        box = self._box(name)
        process = box.process()
        if process is None:
            raise Refusal(f"{name} is already down. `start` brings it back.")
        outer = [int(file.read_text()) for file in map(self.home.pid_file, (name, box.anchor_name)) if file.exists()]
        box.forget()
        os.kill(process, signal.SIGKILL)
        self._end(name, box.anchor_name, processes=(process, *outer))

    @staticmethod
    def _wait_for_end(process: int, *, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while boxes.alive(process) and time.monotonic() < deadline:
            time.sleep(INTERVAL)

    def _end(self, *names: str, processes: Sequence[int]) -> None:
        deadline = time.monotonic() + END_PATIENCE
        while living := [each for each in processes if boxes.alive(each)]:
            if time.monotonic() > deadline:
                raise Refusal(
                    f"processes {living} of {names[0]} did not exit within {END_PATIENCE:.0f} s.{self.words(*names)}"
                )
            time.sleep(INTERVAL)
        for name in names:
            self.home.pid_file(name).unlink(missing_ok=True)

    def spawn(self, name: str, command: Sequence[str], *, uid: int, env: Mapping[str, str]) -> subprocess.Popen[str]:
        """Start a command in a box and leave it to the caller."""
        text = f'{cgroups.join_command(self.home.cluster)}; exec "$@"'
        whole = ["/bin/sh", "-ec", text, "sh", *self._inside(name, command, uid=uid, env=env)]
        pipe = subprocess.PIPE
        started = subprocess.Popen(
            whole, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd="/", start_new_session=True
        )
        self._spawned.append(started)
        return started

    def end(self) -> None:
        """End every process of every box."""
        cgroups.kill(self.home.cluster)
        for started in self._spawned:
            started.wait()
            for stream in (started.stdin, started.stdout, started.stderr):
                if stream:
                    stream.close()

    def _inside(
        self, name: str, command: Sequence[str], *, uid: int = 0, env: Mapping[str, str] | None = None
    ) -> tuple[str, ...]:
        process = self._box(name).process()
        if process is None:
            raise Refusal(f"{name} is down, so nothing runs in it. `start` brings it back.")
        # A fresh environment: no setting of this machine may decide what a daemon or a test does.
        values = {**boxes.environment(uid=uid), **(env or {})}
        return (
            *boxes.enter(process, uid=uid),
            "env",
            "-i",
            *(f"{key}={value}" for key, value in values.items()),
            *command,
        )

    def wait(self, ready: Callable[[], bool], *, what: str, timeout: float = PATIENCE) -> None:
        """Wait until `ready` holds; a daemon that ends by itself meanwhile ends the wait with its last words."""
        deadline = time.monotonic() + timeout
        while not ready():
            if ended := dead(self.home):
                raise Refusal(f"{ended[0]} ended by itself while waiting for {what}.{self.words(ended[0])}")
            if time.monotonic() > deadline:
                raise Refusal(f"timed out after {timeout:g} s waiting for {what}.{self.words(*self.boxes)}")
            time.sleep(INTERVAL)

    def words(self, *names: str) -> str:
        """The last words of these daemons, to put behind a sentence. Of many, the first few tell enough."""
        said = [name for name in names if self.home.log(name).exists()][:4]
        return "".join(f"\n{LAST_WORDS} {name}:\n{last_words(self.home, name)}{self._state(name)}" for name in said)

    def _state(self, name: str) -> str:
        """What it does, if it runs."""
        process = self.daemon(name) if name in self.boxes else None
        return "" if process is None else f"\nIts threads now: {boxes.waits(process)}"

    def _box(self, name: str) -> Box:
        if name not in self.boxes:
            raise Refusal(f"this cluster has no machine {name}, only {', '.join(self.boxes)}.")
        return self.boxes[name]


def _is_up(box: Box) -> bool:
    return box.process() is not None


def finish(started: subprocess.Popen[str], *, what: str, stdin: str | None, timeout: float) -> CommandResult:
    """Let a command end. One that does not in time, or whose caller is interrupted, is killed with its children."""
    try:
        out, err = started.communicate(stdin, timeout=timeout)
    except BaseException as broken:
        os.killpg(started.pid, signal.SIGKILL)
        started.communicate()
        if isinstance(broken, subprocess.TimeoutExpired):
            raise Refusal(f"{what} did not finish within {timeout:g} s.") from broken
        raise
    return CommandResult(code=started.returncode, out=out, err=err)
