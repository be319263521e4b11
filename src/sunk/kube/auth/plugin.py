"""Credentials from a program: the `exec` entry of a kubeconfig (client.authentication.k8s.io, v1 and v1beta1).

The program prints an ExecCredential with a token, a client certificate, or both, and perhaps when they end. It is run
when the first request needs it, again shortly before they end, and again when the server refuses them. Requests that
come meanwhile wait for the same run; a failure is shared too, for a moment, or a hundred waiters would start it a
hundred times in a row.

The end is a wall clock's time, but we keep it as a time left on the loop's clock, counted from the moment of the run: a
clock that is set later on changes nothing. A clock that is wrong to begin with makes us run the program too often
(bounded below) or too late, and then the server's 401 tells us.

A certificate comes with a TLS context of its own. aiohttp keeps connections apart by their context, so that none that
was opened with the old certificate speaks for the new one.
"""

import asyncio
import os
import signal
import ssl
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from msgspec import DecodeError, Meta, Struct, ValidationError, field, json

from sunk.kube.auth.credentials import AccessError, Proof
from sunk.model import loopclock

VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_EXTENSION: Final = "client.authentication.k8s.io/exec"


class Variable(Struct, frozen=True):
    name: str
    value: str = ""


class Program(Struct, frozen=True, rename="camel"):
    """The `exec` entry itself."""

    command: str
    api_version: str
    args: tuple[str, ...] | None = None
    env: tuple[Variable, ...] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: Literal["Never", "IfAvailable", "Always"] = "IfAvailable"


class Patience(Struct, frozen=True):
    """In seconds. The margin before the end of credentials is never more than a tenth of their life."""

    run: float = 60.0
    margin: float = 60.0
    shortest_life: float = 10.0
    failure: float = 2.0
    """How long a failure is answered with the same failure."""


class _Status(Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: Annotated[datetime, Meta(tz=True)] | None = None


class _Answer(Struct, rename="camel"):
    api_version: str
    status: _Status | None = None


Dress = Callable[[bytes, bytes], ssl.SSLContext]
"""Make a TLS context that trusts the cluster and shows this certificate with this key."""


class Plugin:
    """One more kind of credentials. `cluster` is told to programs that ask for it."""

    def __init__(
        self,
        program: Program,
        *,
        folder: Path,
        dress: Dress,
        cluster: Mapping[str, Any],
        patience: Patience = Patience(),  # noqa: B008 - frozen
    ) -> None:
        self._program = program
        self._folder = folder
        self._dress = dress
        self._cluster = cluster
        self._patience = patience
        self._running = asyncio.Lock()
        self._proof = Proof()
        self._until = float("-inf")
        self._failure: AccessError | None = None
        self._failed_until = float("-inf")
        self.runs = 0

    async def proof(self) -> Proof:
        async with self._running:
            if loopclock.now() >= self._until:
                await self._renew()
            return self._proof

    async def refused(self, proof: Proof) -> bool:
        """Run the program again, unless somebody who was refused before us has done it already."""
        async with self._running:
            if proof is self._proof:
                await self._renew()
            return proof != self._proof

    async def _renew(self) -> None:
        if self._failure and loopclock.now() < self._failed_until:
            raise self._failure
        try:
            answer = self._read(await self._run())
            self._proof = self._prove(answer)
        except AccessError as failure:
            self._failure, self._failed_until = failure, loopclock.now() + self._patience.failure
            raise
        self._failure = None
        self._until = loopclock.now() + life(
            answer.expiration_timestamp, now=datetime.now(UTC), patience=self._patience
        )

    def _prove(self, status: _Status) -> Proof:
        if not status.token and not status.client_certificate_data:
            raise self._wrong("gave neither a token nor a certificate", "check its output")
        tls = None
        if status.client_certificate_data:
            tls = self._dress(status.client_certificate_data.encode(), status.client_key_data.encode())
        return Proof(authorization=f"Bearer {status.token}" if status.token else "", tls=tls)

    def _read(self, output: bytes) -> _Status:
        try:
            answer = json.decode(output, type=_Answer)
        except (DecodeError, ValidationError) as error:
            raise self._wrong(f"did not print an ExecCredential ({error})", "check its output") from error
        if answer.api_version != self._program.api_version:
            found = f"answered in {answer.api_version}" if answer.api_version else "answered without an apiVersion"
            raise self._wrong(found, f"make it answer in {self._program.api_version}, or set apiVersion to its version")
        return answer.status or _Status()

    async def _run(self) -> bytes:
        interactive = self._interactive()
        self.runs += 1
        try:
            process = await asyncio.create_subprocess_exec(
                self._command(),
                *(self._program.args or ()),
                env=self._environment(interactive=interactive),
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=None if interactive else asyncio.subprocess.PIPE,
                # Killed with its children, which would otherwise keep the pipes open; a terminal knows one group only.
                process_group=None if interactive else 0,
            )
        except OSError as error:
            raise self._wrong(f"cannot be run ({error.strerror})", "install it, or correct the path") from error
        return await self._finish(process, kill=process.kill if interactive else partial(_kill_all, process.pid))

    async def _finish(self, process: asyncio.subprocess.Process, *, kill: Callable[[], None]) -> bytes:
        try:
            async with asyncio.timeout(self._patience.run):
                output, said = await process.communicate()
        except TimeoutError:
            raise self._wrong(f"did not finish within {self._patience.run:g} s", "run it by hand") from None
        finally:
            if process.returncode is None:
                kill()
                await process.wait()
        if process.returncode:
            words = (said or b"").decode(errors="replace").strip()[-500:] or "without output"
            raise self._wrong(f"exited with code {process.returncode}: {words}", "run it by hand")
        return output

    def _interactive(self) -> bool:
        mode, terminal = self._program.interactive_mode, sys.stdin is not None and sys.stdin.isatty()
        if mode == "Always" and not terminal:
            raise self._wrong("needs a terminal (interactiveMode Always), but there is none", "use other credentials")
        return terminal and mode != "Never"

    def _command(self) -> str:
        """A bare name is looked up in PATH; one with a slash is relative to the kubeconfig."""
        command = self._program.command
        return str(self._folder / command) if "/" in command else command

    def _environment(self, *, interactive: bool) -> dict[str, str]:
        spec: dict[str, Any] = {"interactive": interactive}
        if self._program.provide_cluster_info:
            spec["cluster"] = self._cluster
        request = {"apiVersion": self._program.api_version, "kind": "ExecCredential", "spec": spec}
        own = {variable.name: variable.value for variable in self._program.env or ()}
        return dict(os.environ) | own | {"KUBERNETES_EXEC_INFO": json.encode(request).decode()}

    def _wrong(self, found: str, advice: str) -> AccessError:
        hint = f"\n{self._program.install_hint}" if self._program.install_hint else ""
        return AccessError(f'the credential program "{self._program.command}" {found}: {advice}{hint}')


def life(end: datetime | None, *, now: datetime, patience: Patience) -> float:
    """Say for how many seconds credentials that end then may be used without asking again."""
    if end is None:
        return float("inf")
    left = (end - now).total_seconds()
    return max(left - min(patience.margin, left / 10), patience.shortest_life)


class Extension(Struct, frozen=True):
    """Something that others keep in a kubeconfig's cluster; one of them is meant for credential programs."""

    name: str
    extension: Any = field(default=None)


def configuration(extensions: tuple[Extension, ...]) -> Any:
    return next((one.extension for one in extensions if one.name == _EXTENSION), None)


def _kill_all(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
