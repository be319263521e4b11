"""The server's certificate and key, read again when their files change, while calls go on.

The kubelet renews both files by swapping a symbolic link. They are looked at every few seconds, and a new chain is loaded
into the context that all connections share: those that are open keep what they have agreed on, and new ones get the new
certificate. A pair that cannot be loaded changes nothing. It is tried in a context of its own first, since one that fails
halfway would leave the shared context with the certificate of one pair and the key of another.
"""

import asyncio
import logging
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Never

from cryptography import x509
from msgspec import Struct

from sunk.model.contract import hooks
from sunk.model.faults import survived, words

log = logging.getLogger(__name__)

PERIOD: Final = 3.0


class Pair(Struct, frozen=True):
    """Two files of the same generation, and by what they are told from the next one."""

    certificate: Path
    key: Path
    mark: tuple[tuple[int, int, int], ...]


def pair(folder: Path) -> Pair:
    """Find the files. Behind the link of the certificate, so that the key is of the same generation."""
    certificate = (folder / hooks.CERTIFICATE).resolve(strict=True)
    key = certificate.with_name(hooks.KEY)
    marks = ((status.st_ino, status.st_mtime_ns, status.st_size) for status in (certificate.stat(), key.stat()))
    return Pair(certificate=certificate, key=key, mark=tuple(marks))


def context() -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    made.num_tickets = 0  # every call is a connection, and none comes back to be resumed
    return made


class ServerCertificate:
    """`context` is good for connections once `unready` says nothing. `load` may be called at any time."""

    def __init__(self, folder: Path) -> None:
        self.context: Final = context()
        self.expires: datetime | None = None
        self.loads = 0
        self._folder = folder
        self._seen: Pair | None = None
        self._trouble = "not read yet"

    def unready(self) -> str:
        return "" if self.loads else f"no certificate in {self._folder}: {self._trouble}"

    async def run(self) -> Never:
        while True:
            with survived("hook server: certificate"):
                self.load()
            await asyncio.sleep(PERIOD)

    def load(self) -> None:
        """Load the pair if it is new. One that does not load is said once, and tried again each time."""
        try:
            found = pair(self._folder)
            if found != self._seen:
                self._load(found)
                self._seen = found
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            self._say(words(error))
        else:
            self._say("")

    def _load(self, found: Pair) -> None:
        expires = x509.load_pem_x509_certificate(found.certificate.read_bytes()).not_valid_after_utc
        for each in (context(), self.context):
            each.load_cert_chain(found.certificate, found.key, password=_no_password)
        self.expires = expires
        self.loads += 1
        log.info("hook server: certificate loaded, valid until %s", expires.isoformat())
        if expires <= datetime.now(UTC):
            log.warning("hook server: the certificate has expired: callers will refuse it")

    def _say(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            kept = "the last one stays in use" if self.loads else "not serving yet"
            log.warning("hook server: cannot load the certificate in %s: %s; %s", self._folder, trouble, kept)
        self._trouble = trouble


def _no_password() -> str:
    """Instead of a question at the terminal."""
    raise ValueError("the key is encrypted: a plain one is wanted")
