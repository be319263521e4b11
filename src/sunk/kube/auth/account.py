"""The account of a Pod: a token and the cluster's CA, both in files that the kubelet keeps fresh.

A process of ours lives for months, longer than either may. The CA is looked at as often as the token; a new one holds
for connections made from then on, and those that are open live on. A file that cannot be read or is no certificate
changes nothing: the last good CA stays.
"""

import logging
import ssl
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from sunk.kube.auth.credentials import TOKEN_LIFE, AccessError, Proof, TokenFile, read
from sunk.model import loopclock

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
            log.warning("the cluster's CA stays as it was: %s", error)
            return
        if self._pem:
            log.info("the cluster has another CA: new connections trust that one")
        self._pem, self._tls = pem, tls
