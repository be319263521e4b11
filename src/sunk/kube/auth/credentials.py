"""Who we are to the API server, as far as a header says it; a client certificate is part of the TLS context.

The account of a Pod is a token and the cluster's CA, both in files that the kubelet keeps fresh.

A process of ours lives for months, longer than either may. The CA is looked at as often as the token; a new one holds
for connections made from then on, and those that are open live on. A file that cannot be read or is no certificate
changes nothing: the last good CA stays.
"""

import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from sunk.model import loopclock

TOKEN_LIFE: Final = 10.0
"""Seconds for which a token read from a file is used. Kubelet renews the file long before the old token ends."""


class AccessError(Exception):
    """There is no usable way to an API server. The text says in which file, what is missing, and what to do."""


class Proof(Struct, frozen=True):
    """Who we are, for one request: its Authorization header, and a TLS context if a certificate came with it."""

    authorization: str = ""
    tls: ssl.SSLContext | None = None


class Credentials(Protocol):
    """Something that can prove who we are; `sunk.kube.auth.plugin` is one more of these."""

    async def proof(self) -> Proof:
        """Return what to show now."""

    async def refused(self, proof: Proof) -> bool:
        """Hear that the server said 401 to a proof. True if the next one may do better."""


class Nobody(Struct, frozen=True):
    """No header: the client certificate speaks, or the server takes anybody."""

    async def proof(self) -> Proof:
        return Proof()

    async def refused(self, proof: Proof) -> bool:  # noqa: ARG002 - the protocol's
        return False


class Token(Struct, frozen=True):
    value: str

    async def proof(self) -> Proof:
        return Proof(f"Bearer {self.value}")

    async def refused(self, proof: Proof) -> bool:  # noqa: ARG002 - the protocol's
        return False


class TokenFile(Struct):
    """A token that somebody else keeps fresh on disk."""

    path: Path
    _value: str = ""
    _until: float = 0.0

    async def proof(self) -> Proof:
        now = loopclock.now()
        if now >= self._until:
            self._value = read(self.path, wanted="a token").decode().strip()
            self._until = now + TOKEN_LIFE
        return Proof(f"Bearer {self._value}")

    async def refused(self, proof: Proof) -> bool:
        self._until = 0.0
        return await self.proof() != proof


def read(path: Path, *, wanted: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise AccessError(
            f"{path} should hold {wanted}: {error.strerror}. Create it, make it readable, or specify another"
        ) from error


log = logging.getLogger(__name__)

Trust = Callable[[bytes], ssl.SSLContext]


class Account(Struct):
    token: TokenFile
    authority: Path
    trust: Trust
    """Makes a TLS context out of a CA."""
    _pem: bytes = b""
    _tls: ssl.SSLContext | None = None
    _until: float = 0.0

    async def proof(self) -> Proof:
        shown = await self.token.proof()
        now = loopclock.now()
        if now >= self._until:
            self._until = now + TOKEN_LIFE
            self._read()
        return Proof(shown.authorization, tls=self._tls)

    async def refused(self, proof: Proof) -> bool:
        return await self.token.refused(Proof(proof.authorization))

    def _read(self) -> None:
        try:
            pem = read(self.authority, wanted="the cluster's CA")
            if pem == self._pem:
                return
            tls = self.trust(pem)
        except AccessError as error:
            log.warning("keeping the previous CA of the cluster: %s", error)
            return
        if self._pem:
            log.info("the cluster has a new CA: new connections trust it")
        self._pem, self._tls = pem, tls
