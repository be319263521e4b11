"""Steer a cluster from a test that runs inside our own image: kill a daemon there, see here what libslurm makes of it.

`serve` listens on a socket that the image's machine can see; `Remote` is the other end, with the verbs of `Slurm`.
"""

import socket
import socketserver
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from sunk.local.slurm.boxes.layout import REMOTE
from sunk.local.slurm.boxes.machines import CommandResult
from sunk.local.slurm.configuration import Node
from sunk.local.slurm.running import Slurm
from sunk.model.refusal import Refusal

SOCKET: Final = "socket"
VERBS: Final = frozenset({"run", "attempt", "start", "stop", "kill", "add", "states", "expect", "answers", "log"})


class RemoteCall(msgspec.Struct, frozen=True):
    """One call of a verb."""

    verb: str
    words: list[Any] = []
    options: dict[str, Any] = {}


class Reply(msgspec.Struct, frozen=True):
    """What became of it."""

    value: Any = None
    refusal: str | None = None


@contextmanager
def serve(slurm: Slurm) -> Iterator[None]:
    """Take wishes for this cluster until the block ends."""
    path = slurm.layout.folder / "remote" / SOCKET
    path.unlink(missing_ok=True)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            for line in self.rfile:
                self.wfile.write(msgspec.json.encode(fulfil(slurm, msgspec.json.decode(line, type=RemoteCall))) + b"\n")

    with socketserver.ThreadingUnixStreamServer(str(path), Handler) as server:
        server.daemon_threads = True
        path.chmod(0o777)
        thread = threading.Thread(target=server.serve_forever, name="remote", args=(0.05,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def fulfil(slurm: Slurm, wish: RemoteCall) -> Reply:
    if wish.verb not in VERBS:
        return Reply(refusal=f"a cluster cannot {wish.verb}. It can {', '.join(sorted(VERBS))}.")
    words = [msgspec.convert(word, Node) if isinstance(word, dict) else word for word in wish.words]
    try:
        return Reply(value=getattr(slurm, wish.verb)(*words, **wish.options))
    except Refusal as refusal:
        return Reply(refusal=str(refusal))


class Remote:
    """The cluster around the image in which this runs."""

    def __init__(self, path: Path = Path(REMOTE) / SOCKET) -> None:
        self._path = path

    def run(self, *command: str, **options: Any) -> str:
        return str(self._ask("run", *command, **options))

    def attempt(self, *command: str, **options: Any) -> CommandResult:
        return msgspec.convert(self._ask("attempt", *command, **options), CommandResult)

    def start(self, *names: str) -> None:
        self._ask("start", *names)

    def stop(self, name: str, **options: Any) -> None:
        self._ask("stop", name, **options)

    def kill(self, name: str) -> None:
        self._ask("kill", name)

    def add(self, *nodes: Node | str) -> None:
        self._ask("add", *nodes)

    def states(self) -> dict[str, frozenset[str]]:
        return msgspec.convert(self._ask("states"), dict[str, frozenset[str]])

    def expect(self, nodes: str | Collection[str], *any_of: str, **options: Any) -> None:
        self._ask("expect", nodes, *any_of, **options)

    def answers(self) -> bool:
        return bool(self._ask("answers"))

    def log(self, name: str) -> str:
        return str(self._ask("log", name))

    def _ask(self, verb: str, *words: Any, **options: Any) -> Any:
        wish = RemoteCall(verb=verb, words=list(words), options=options)
        with socket.socket(socket.AF_UNIX) as wire:
            wire.connect(str(self._path))
            wire.sendall(msgspec.json.encode(wish) + b"\n")
            with wire.makefile("rb") as answer:
                reply = msgspec.json.decode(answer.readline() or b"{}", type=Reply)
        if reply.refusal is not None:
            raise Refusal(reply.refusal)
        return reply.value
