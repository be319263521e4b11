"""A Slurm cluster that runs on this machine, and what a test can do with it."""

import re
import shlex
import signal
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from sunk.local.kubernetes.process import Home
from sunk.local.slurm import configuration
from sunk.local.slurm.boxes import network
from sunk.local.slurm.boxes.layout import Layout
from sunk.local.slurm.boxes.machines import CommandResult, Machines, finish
from sunk.local.slurm.configuration import (
    ACCOUNTING,
    ACCOUNTING_PORT,
    BOXES,
    CONTROLLER,
    DATABASE,
    DATABASE_PORT,
    LOGIN,
    NODE_PORT,
    PARTITIONS,
    TOOLS,
    Node,
    Settings,
)
from sunk.model.refusal import Refusal

READY: Final = 90.0
"""Seconds. A machine with ten processes for each core lets one stand still for five to ten seconds, more than once."""
PATIENCE: Final = 90.0
"""Seconds in which a command ends, unless told: `sbatch` and `srun` wait for daemons."""
USABLE: Final = ("IDLE", "ALLOCATED", "MIXED")
HINDERED: Final = ("DRAIN", "NOT_RESPONDING", "INVALID_REG")
PYTHON: Final = "/opt/sunk/bin/python3"
_SHOW_NODES: Final = ("scontrol", "show", "nodes", "--oneliner")
_STATE: Final = re.compile(r"NodeName=(\S+).*? State=(\S+)")
_NOTHING: Final[Mapping[str, str]] = {}


class Slurm:
    """One cluster: `controller`, `login` for commands, `sunk` with our own image, and nodes."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.machines = Machines(Home(cluster=layout.cluster, folder=layout.folder))
        self._nodes = 0

    def run(
        self,
        *command: str,
        uid: int = 0,
        on: str = LOGIN,
        timeout: float = PATIENCE,
        stdin: str | None = None,
        env: Mapping[str, str] = _NOTHING,
    ) -> str:
        """Run a command in the image's files and give what it printed. Anything but exit code 0 is a Refusal."""
        answer = self.attempt(*command, uid=uid, on=on, timeout=timeout, stdin=stdin, env=env)
        if answer.code:
            said = (answer.err or answer.out).strip()
            raise Refusal(f"`{shlex.join(command)}` on {on} exited with code {answer.code}: {said[-2000:]}")
        return answer.out

    def attempt(
        self,
        *command: str,
        uid: int = 0,
        on: str = LOGIN,
        timeout: float = PATIENCE,
        stdin: str | None = None,
        env: Mapping[str, str] = _NOTHING,
    ) -> CommandResult:
        """Run a command that may end with any code."""
        started = self.machines.spawn(on, command, uid=uid, env=env)
        return finish(started, what=f"`{shlex.join(command)}` on {on}", stdin=stdin, timeout=timeout)

    def spawn(
        self, *command: str, uid: int = 0, on: str = LOGIN, env: Mapping[str, str] = _NOTHING
    ) -> subprocess.Popen[str]:
        """Start a command and go on. It ends with the cluster at the latest."""
        return self.machines.spawn(on, command, uid=uid, env=env)

    def python(
        self, *arguments: str, uid: int = 0, timeout: float = PATIENCE, env: Mapping[str, str] = _NOTHING
    ) -> str:
        """Run the Python of our own image, with libslurm and the cluster in reach and the clone at /clone."""
        self.require_tools()
        return self.run(PYTHON, *arguments, uid=uid, on=TOOLS, timeout=timeout, env=env)

    def require_tools(self) -> None:
        """Make the machine with our own image, and a fresh copy of the clone in it. Only who needs it waits for it."""
        if TOOLS not in self.machines.boxes:
            self.machines.add(self.layout.tools())
            self.machines.up(TOOLS)
        self.layout.copy_clone()

    def begin(self, nodes: Sequence[Node]) -> None:
        """Start everything. Nodes look for the controller once in ten seconds, so it comes first."""
        network.lay(self.layout.cluster)
        network.connect(self.layout.cluster, {LOGIN: network.LOGIN})
        for box, daemon in (self.layout.controller(), self.layout.login()):
            self.machines.add(box, daemon=daemon)
        self._make(nodes)
        self._begin_accounting()
        self.machines.up(*self.machines.boxes)
        self.start(CONTROLLER)
        if self.layout.accounting:
            # Of associations it writes down what was used every five minutes, and at its end. 26.05 that was killed
            # before it ever did refuses to start again.
            self.stop(CONTROLLER)
            self.start(CONTROLLER)
        self.start(LOGIN, *(node.name for node in nodes))

    def _begin_accounting(self) -> None:
        """Each waits for the one before it: a slurmctld that enforces limits does not start without them."""
        if not self.layout.accounting:
            return
        indexes = {ACCOUNTING: network.ACCOUNTING, DATABASE: network.DATABASE}
        network.connect(self.layout.cluster, indexes)
        self.layout.introduce(indexes)
        for box, daemon in (self.layout.database(), self.layout.accountant()):
            self.machines.add(box, daemon=daemon)
            self.start(box.name)

    def add(self, *nodes: Node | str, usable: bool = True) -> None:
        """Add nodes, each with a slurmd of its own, and wait until they are usable, if they are to be."""
        made = configuration.nodes(nodes)
        for node in made:
            configuration.check(node.name, taken=set(self.machines.boxes))
        self._make(made)
        start = self.start if usable else self.machines.start
        start(*(node.name for node in made))

    def _make(self, nodes: Sequence[Node]) -> None:
        indexes = {node.name: index for index, node in enumerate(nodes, start=network.FIRST_NODE + self._nodes)}
        self._nodes += len(nodes)
        network.connect(self.layout.cluster, indexes)
        self.layout.introduce(indexes)
        for node in nodes:
            box, daemon = self.layout.node(node)
            self.machines.add(box, daemon=daemon)

    def start(self, *names: str) -> None:
        """Start what was stopped or killed, and wait until it serves."""
        self.machines.start(*names)
        for name, port in ((DATABASE, DATABASE_PORT), (ACCOUNTING, ACCOUNTING_PORT)):
            if name in names:
                self.machines.wait(partial(self.machines.listens, name, port), what=f"the {name}", timeout=READY)
        if CONTROLLER in names:
            self.machines.wait(self.answers, what="an answer of slurmctld", timeout=READY)
        if LOGIN in names:
            has = self.layout.client_configuration.exists
            self.machines.wait(has, what="the configuration that sackd asks for", timeout=READY)
            # It has that before it serves its socket, without which no command can say who it is.
            self.machines.wait(partial(self.answers, on=LOGIN), what="an answer of slurmctld by sackd", timeout=READY)
        if nodes := [name for name in names if name not in BOXES]:
            # Slurm may not have noticed yet that an earlier slurmd was gone, so its word alone says nothing.
            for name in nodes:
                self.machines.wait(partial(self.machines.listens, name, NODE_PORT), what=f"slurmd of {name}")
            self.expect(nodes, *USABLE, without=("NOT_RESPONDING",), timeout=READY + len(nodes))

    def stop(self, name: str, *, with_signal: int = signal.SIGTERM) -> None:
        """End a daemon alone, with SIGKILL if asked; what it started lives on, as under s6 in a Pod."""
        self.machines.stop(name, with_signal=with_signal)

    def kill(self, name: str) -> None:
        """End everything on a machine at once, as when a Pod is lost. Its files stay."""
        self.machines.kill(name)

    def answers(self, *, on: str = CONTROLLER) -> bool:
        """Whether slurmctld does, if it is asked from this machine."""
        here = self.machines.daemon(CONTROLLER) is not None
        return here and self.attempt("scontrol", "ping", on=on).code == 0

    def states(self) -> dict[str, frozenset[str]]:
        """Base state and flags of every node, in Slurm's words."""
        return _states(self.run(*_SHOW_NODES, on=CONTROLLER))

    def expect(
        self, nodes: str | Iterable[str], *any_of: str, without: Collection[str] = HINDERED, timeout: float = READY
    ) -> None:
        """Wait until each of these nodes shows one of these words and none of those it is to be without."""
        names = [nodes] if isinstance(nodes, str) else list(nodes)
        unwanted = set(without) - set(any_of)
        seen: dict[str, frozenset[str]] = {}

        def hold() -> bool:
            answer = self.attempt(*_SHOW_NODES, on=CONTROLLER)
            if answer.code:
                return False  # it starts, or reads its configuration
            states = _states(answer.out)
            seen.update((name, states.get(name, frozenset({"not known to Slurm"}))) for name in names)
            return all(state & set(any_of) and not state & unwanted for state in seen.values())

        try:
            self.machines.wait(hold, what=" or ".join(any_of), timeout=timeout)
        except Refusal as refusal:
            found = "; ".join(f"{name} is {'+'.join(sorted(state))}" for name, state in seen.items())
            raise Refusal(f"{found}. {refusal}") from refusal

    def configure(
        self,
        *,
        config: Settings = _NOTHING,
        lines: Sequence[str] = PARTITIONS,
        files: Mapping[str, str] = _NOTHING,
    ) -> None:
        """Write the whole configuration again and make Slurm read it."""
        self.layout.write(config=config, lines=lines, files=files)
        self.run("scontrol", "reconfigure", on=CONTROLLER)

    def path(self, inside: str, *, on: str) -> Path:
        """Where a file of a running machine lies as seen from here."""
        return Path(f"/proc/{self.machines.boxes[on].process()}/root") / inside.lstrip("/")

    def log(self, name: str) -> str:
        return self.machines.home.log(name).read_text(errors="replace")


def _states(shown: str) -> dict[str, frozenset[str]]:
    return {name: frozenset(words.split("+")) for name, words in _STATE.findall(shown)}
