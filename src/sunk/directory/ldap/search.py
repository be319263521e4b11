"""One search in one directory: a child process of `ldapsearch`, with an end in time.

Why a child and not a library is in docs/decisions/0010-directory-agent.md. A child also has its own memory, can be killed
wherever it hangs, and cannot take the agent with it.

The password goes through a pipe: neither the command line nor the environment of a process is secret. The environment is made
from nothing, so that no ldap.conf of a person or variable of the Pod decides whom we trust; certificates and their CA are always
named. Referrals are not followed: the password would go to whomever the directory names.
"""

import asyncio
import logging
import os
import signal
from asyncio import StreamReader
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from msgspec import Struct

from sunk.directory.failure import Failure
from sunk.directory.ldap import results
from sunk.directory.ldap.ldif import Entry, Garbage, LdifParser
from sunk.directory.ldap.results import Answer
from sunk.model.contract import people

log = logging.getLogger(__name__)

PROGRAM: Final = "ldapsearch"
SYSTEM_CA: Final = "/etc/ssl/certs/ca-certificates.crt"
LONGEST: Final = 600.0
"""Seconds that one search may take, however steadily it answers."""
_CHUNK: Final = 1 << 18
_WORDS: Final = 1 << 14
_LAST_BREATH: Final = 5.0
_LONGEST_PASSWORD: Final = 4096
"""Bytes; a pipe holds this much without anybody who reads."""


class TlsFiles(Struct, frozen=True):
    """Paths of what TLS is checked and done with; empty where there is none."""

    ca: str = ""
    certificate: str = ""
    key: str = ""


class Connection(Struct, frozen=True):
    """How to reach a server, and as whom."""

    uri: str
    start_tls: bool
    bind_dn: str = ""
    password: bytes = b""
    external: bool = False
    """Bind by the client certificate (SASL EXTERNAL)."""
    tls: TlsFiles = TlsFiles()
    network_timeout: int = 6
    search_timeout: int = 60
    page_size: int = 1000

    def __repr__(self) -> str:
        """Without the password."""
        return f"Connection({self.uri!r}, bind_dn={self.bind_dn!r}, external={self.external})"

    @property
    def is_encrypted(self) -> bool:
        return self.start_tls or self.uri.startswith("ldaps://")


class Query(Struct, frozen=True):
    """What to ask for."""

    base: str
    filter: str
    attributes: tuple[str, ...]
    scope: str = "sub"


async def search(
    connection: Connection, query: Query, *, take: Callable[[Entry], None], program: str = PROGRAM
) -> None:
    """Hand every entry to `take`. Raises a Failure unless the server said that these are all."""
    if connection.bind_dn and not connection.password:
        # Servers take this for an anonymous bind, and would say that all is well.
        raise Failure(people.INVALID, "there is a bind DN but no password", option="ldap_default_authtok")
    process = await _start(connection, query, program=program)
    try:
        answer = await _until_the_end(process, connection, take=take)
    finally:
        await _kill(process)
    if answer is not None:
        raise results.failure(answer, connection.uri, encrypted=connection.is_encrypted)


async def _start(connection: Connection, query: Query, *, program: str) -> Process:
    secret = _pipe(connection.password) if connection.bind_dn else None
    try:
        return await asyncio.create_subprocess_exec(
            *command(connection, query, program=program, secret=secret),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            limit=_CHUNK,
            env=environment(connection),
            cwd="/",
            start_new_session=True,
            pass_fds=() if secret is None else (secret,),
        )
    except OSError as error:
        words = (
            f"{program} cannot be run ({error.strerror}): the image of the directory agent needs the package ldap-utils"
        )
        raise Failure(people.INVALID, words, option="image") from error
    finally:
        if secret is not None:
            os.close(secret)


def _pipe(password: bytes) -> int:
    """A file descriptor to read the password from, once."""
    if len(password) > _LONGEST_PASSWORD:
        words = f"the password has {len(password)} bytes: at most {_LONGEST_PASSWORD} are possible"
        raise Failure(people.INVALID, words, option="ldap_default_authtok")
    reading, writing = os.pipe()
    with open(writing, "wb") as pipe:  # noqa: PTH123 - a descriptor
        pipe.write(password)
    return reading


def command(connection: Connection, query: Query, *, program: str, secret: int | None) -> list[str]:
    bind = ["-x"]
    if connection.external:
        bind = ["-Q", "-Y", "EXTERNAL"]
    elif secret is not None:
        bind = ["-x", "-D", connection.bind_dn, "-y", f"/dev/fd/{secret}"]
    return [
        *(program, "-LLL", "-o", "ldif-wrap=no", "-H", connection.uri),
        *(["-ZZ"] if connection.start_tls else []),
        *bind,
        # With a time limit, ldapsearch also ends with an error when the server hangs up on it.
        *("-l", str(connection.search_timeout), "-z", "none"),
        *("-b", query.base, "-s", query.scope),
        *(["-E", f"pr={connection.page_size}/noprompt"] if connection.page_size and query.scope != "base" else []),
        query.filter,
        *query.attributes,
    ]


def environment(connection: Connection) -> dict[str, str]:
    files = connection.tls
    return {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "LC_ALL": "C",
        "HOME": "/nonexistent",
        # `-o nettimeout` would come too late for StartTLS, which is the first thing that is sent.
        "LDAPNETWORK_TIMEOUT": str(connection.network_timeout),
        "LDAPTLS_REQCERT": "demand",
        "LDAPTLS_CACERT": files.ca or SYSTEM_CA,
        **({"LDAPTLS_CERT": files.certificate, "LDAPTLS_KEY": files.key} if files.certificate else {}),
    }


async def _until_the_end(process: Process, connection: Connection, *, take: Callable[[Entry], None]) -> Answer | None:
    """Read to the end; None if all is well."""
    assert process.stdout  # noqa: S101 - both were asked for
    assert process.stderr  # noqa: S101
    listening = asyncio.create_task(_listen(process.stderr), name="words of ldapsearch")
    # From the first to the last byte no pause may be longer than this, or the server hangs.
    silence = float(connection.network_timeout + connection.search_timeout)
    try:
        async with asyncio.timeout(LONGEST):
            await _entries(process.stdout, silence=silence, take=take)
            async with asyncio.timeout(silence):
                words, code = await listening, await process.wait()
    except TimeoutError:
        return Answer(results.TIMEOUT, "")
    except Garbage as garbage:
        return await _explained(process, listening, garbage)
    finally:
        listening.cancel()
    return results.answer(code, words)


async def _entries(stream: StreamReader, *, silence: float, take: Callable[[Entry], None]) -> None:
    parser = LdifParser()
    while True:
        async with asyncio.timeout(silence):
            chunk = await stream.read(_CHUNK)
        if not chunk:
            parser.end()
            return
        for entry in parser.feed(chunk):
            take(entry)


async def _explained(process: Process, listening: "asyncio.Task[str]", garbage: Garbage) -> Answer:
    """An answer that breaks off is mostly explained by what ldapsearch says about it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(1.0):
            said = results.answer(await process.wait(), await listening)
            if said is not None:
                return said
    return Answer(results.GARBAGE, str(garbage))


async def _listen(stream: StreamReader) -> str:
    """Read all words, so that nobody waits for us, and keep the first of them."""
    kept = b""
    while chunk := await stream.read(_CHUNK):
        kept += chunk[: _WORDS - len(kept)]
    return kept.decode(errors="replace")


async def _kill(process: Process) -> None:
    """End it and all that it has started, wherever it is."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    # A process ends for asyncio when its pipes do, and a pipe that is full and that nobody reads never does.
    with suppress(TimeoutError):
        async with asyncio.timeout(_LAST_BREATH):
            for stream in (process.stdout, process.stderr):
                while stream is not None and await stream.read(_CHUNK):
                    pass
            await process.wait()
            return
    process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - somebody else holds the pipes
