"""The hook server: `https://<server>/v1/nodes/<node>/<hook>`, called by Pods, answered by hooks.

    server = HookServer(HookServerSettings(), {"pre-hook": wait}, verifier=token_verifier(client, ...), admit=admit)
    server.bind()                          # a port that is taken is a Refusal, before anything runs
    Part(..., duties={"serve hooks": server.run}, unready={"hooks": server.unready}, on_stop=(server.stop,))

How a call is judged is said in `calls`. A caller that hangs up cancels its hook. When the process stops, hanging calls
are answered 503 at once, so that they go on at another replica.

Nothing is answered before there is a certificate. If it comes late, the server waits for it, is not ready, and callers
find nobody at the port, which tells them to try again or elsewhere.
"""

import asyncio
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Never

from msgspec import Struct

from sunk.kube.tasks import running
from sunk.model.contract import clusterobjects, hooks as contract
from sunk.service.hooks.answers import Admit, Hook, HookAnswer, HookCall
from sunk.service.hooks.calls import CallLimits, Calls
from sunk.service.hooks.certificate import ServerCertificate
from sunk.service.hooks.connections import Connections, allow_files, bound
from sunk.service.hooks.metrics import HookStatistics
from sunk.service.hooks.tokens import TokenVerifier

__all__ = ["Admit", "Hook", "HookAnswer", "HookCall", "HookServer", "HookServerSettings"]

_ENDING: Final = 2.0
"""Seconds for the last answers."""
_GLANCE: Final = 0.1


class HookServerSettings(Struct, frozen=True):
    """Times are in seconds."""

    folder: Path = Path(contract.SERVER_FOLDER)
    """Of certificate and key."""
    host: str = "0.0.0.0"  # noqa: S104 - callers come from other machines
    port: int = clusterobjects.HOOKS_PORT
    most_calls: int = 20_000
    most_calls_of_pod: int = 4
    most_strangers: int = 2000
    """Connections that have not shown a valid token yet."""
    patience: float = 5.0
    """For a handshake, for headers, and for a body."""
    longest: float = 86_400.0
    """For a hook. They have limits of their own; this one is for those that forget."""


class HookServer:
    """One server of one process. `unready` says what keeps it from serving."""

    def __init__(
        self,
        settings: HookServerSettings,
        hooks: Mapping[str, Hook],
        *,
        verifier: TokenVerifier,
        admit: Admit,
        reads: frozenset[str] = contract.READS,
    ) -> None:
        limits = CallLimits(
            most=settings.most_calls,
            most_of_pod=settings.most_calls_of_pod,
            patience=settings.patience,
            longest=settings.longest,
        )
        self._settings = settings
        self._verifier = verifier
        self._calls = Calls(hooks, verifier=verifier, admit=admit, reads=reads, limits=limits)
        self._certificate = ServerCertificate(settings.folder)
        self._connections = Connections(
            self._calls.handle,
            tls=self._certificate.context,
            most_strangers=settings.most_strangers,
            patience=settings.patience,
        )
        self._listening: socket.socket | None = None

    def bind(self) -> None:
        """Take the port; a Refusal if it cannot be had. Nobody is answered before `run`."""
        self._bound()

    def _bound(self) -> socket.socket:
        if self._listening is None:
            self._listening = bound(self._settings.host, self._settings.port)
        return self._listening

    @property
    def port(self) -> int:
        """The one that was taken: if the settings say 0, the system chooses."""
        found: int = self._bound().getsockname()[1]
        return found

    def unready(self) -> str:
        return self._certificate.unready() or ("" if self._connections.listening else "not listening yet")

    def statistics(self) -> HookStatistics:
        return HookStatistics(
            calls=self._calls.in_progress(),
            answers=dict(self._calls.answers),
            tokens=self._verifier.statistics(),
            strangers=self._connections.strangers,
            cut=self._connections.cut,
            certificate_loads=self._certificate.loads,
            certificate_expires=self._certificate.expires,
        )

    async def run(self) -> Never:
        """Serve until cancelled, in every replica, leader or not."""
        listening = self._bound()
        allow_files(self._settings.most_calls + self._settings.most_strangers)
        duties = {
            "hook server: certificate": self._certificate.run(),
            "hook server: keys": self._verifier.run(),
            "hook server: connections": self._accept(listening),
        }
        try:
            async with running(duties):
                await asyncio.Event().wait()
        finally:
            listening.close()
            self.stop()
            await self._calls.ended(within=_ENDING)
            await self._connections.close()
        raise AssertionError("this event is never set")

    async def _accept(self, listening: socket.socket) -> Never:
        while self._certificate.unready():  # noqa: ASYNC110 - files are looked at, and nobody says when they come
            await asyncio.sleep(_GLANCE)
        await self._connections.run(listening)

    def stop(self) -> None:
        """Answer 503 to all calls, now and from now on: they are for another replica. The end of `run` does this too."""
        self._calls.stop()
