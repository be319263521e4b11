"""Who we are to the API server, as far as a header says it; a client certificate is part of the TLS context."""

import asyncio
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

TOKEN_LIFE: Final = 10.0
"""Seconds for which a token read from a file is used. Kubelet renews the file long before the old token ends."""


class AccessError(Exception):
    """There is no usable way to an API server. The text says in which file, what is missing, and what to do."""


class Credentials(Protocol):
    """Something that can prove who we are. An `exec` plugin will be one more of these."""

    def authorization(self) -> str:
        """Return the Authorization header to send now; empty for none."""

    def refused(self) -> bool:
        """Hear that the server said 401. True if the next `authorization` may do better."""


class Nobody(Struct, frozen=True):
    """No header: the client certificate speaks, or the server takes anybody."""

    def authorization(self) -> str:
        return ""

    def refused(self) -> bool:
        return False


class Token(Struct, frozen=True):
    value: str

    def authorization(self) -> str:
        return f"Bearer {self.value}"

    def refused(self) -> bool:
        return False


class TokenFile(Struct):
    """A token that somebody else keeps fresh on disk."""

    path: Path
    _value: str = ""
    _until: float = 0.0

    def authorization(self) -> str:
        now = asyncio.get_running_loop().time()
        if now >= self._until:
            self._value = read(self.path, wanted="a token").decode().strip()
            self._until = now + TOKEN_LIFE
        return f"Bearer {self._value}"

    def refused(self) -> bool:
        before, self._until = self._value, 0.0
        self.authorization()
        return self._value != before


def read(path: Path, *, wanted: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise AccessError(
            f"{path} should hold {wanted}: {error.strerror}. Create it, make it readable, or name another"
        ) from error
