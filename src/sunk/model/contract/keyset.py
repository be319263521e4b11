"""The keys of auth/slurm as `slurm.jwks` has them, and how one takes the place of another.

With `slurm.key` alone there is one key without a name, and a second one cuts off every daemon that does not have it
yet. In `slurm.jwks` each key has an id: a daemon signs with the default key, and accepts every key in the file. What is
signed without an id it holds against its default key, and a daemon that has only `slurm.key` does not look at ids. So
both files agree as long as `slurm.key` is the default key of `slurm.jwks`, and no step of a rotation has to happen
everywhere at once:

1. `add`: every daemon learns the new key, and goes on signing with the old one.
2. `use`: once all of them know it, they sign with the new one. Each accepts both.
3. `drop`: once all of them sign with the new one, and nothing that was signed before is still under way, the old key
   goes.
"""

import base64
import binascii
import re
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from sunk.model.refusal import Refusal

SLURM_KEY: Final = "slurm.key"
SLURM_JWKS: Final = "slurm.jwks"
FIRST: Final = "first"
"""The id of a key that has been alone so far."""
LEAST_BYTES: Final = 16
"""Slurm refuses a shorter one."""
_ID: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


class SigningKey(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A key, in the words of the file."""

    kid: Annotated[str, Meta(min_length=1)]
    k: str
    """Its bytes, in base64url."""
    use: str = ""
    """`default`: what is signed, is signed with it."""
    exp: int | None = None
    """When it is no longer accepted, as a Unix time."""
    # Slurm reads no file without these.
    alg: Literal["HS256"] | None = None
    kty: Literal["oct"] | None = None

    @property
    def value(self) -> bytes:
        return base64.urlsafe_b64decode(self.k + "=" * (-len(self.k) % 4))


class KeySet(Struct, frozen=True):
    keys: Annotated[tuple[SigningKey, ...], Meta(min_length=1)]

    @property
    def default(self) -> SigningKey:
        """Slurm takes the first one if none is marked."""
        return next((one for one in self.keys if one.use.lower() == "default"), self.keys[0])

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(one.kid for one in self.keys)

    def encode(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self)) + b"\n"

    def add(self, value: bytes, *, kid: str) -> "KeySet":
        """With one more key, which is accepted and not used yet."""
        if not _ID.fullmatch(kid):
            raise Refusal(f"{kid!r} is not a valid key id: use up to 63 letters, digits, dots, dashes and underscores.")
        if kid in self.ids:
            raise Refusal(f"key {kid} already exists. Choose another id; a key is never replaced under the same id.")
        if len(value) < LEAST_BYTES:
            raise Refusal(f"Slurm refuses a key of {len(value)} bytes: it needs at least {LEAST_BYTES}.")
        return KeySet((*self.keys, _key(kid, value)))

    def use(self, kid: str) -> "KeySet":
        """With another default key."""
        self._known(kid)
        return KeySet(tuple(msgspec.structs.replace(one, use="default" if one.kid == kid else "") for one in self.keys))

    def drop(self, kid: str) -> "KeySet":
        self._known(kid)
        if kid == self.default.kid:
            raise Refusal(f"{kid} is in use. Switch to another key first.")
        return KeySet(tuple(one for one in self.keys if one.kid != kid))

    def _known(self, kid: str) -> None:
        if kid not in self.ids:
            raise Refusal(f"no key {kid}; existing keys: {', '.join(self.ids)}.")


def alone(value: bytes, *, kid: str = FIRST) -> KeySet:
    """What a `slurm.key` says, as a set."""
    return KeySet((_key(kid, value, use="default"),))


def read(content: bytes) -> KeySet:
    """A file, if Slurm would take it."""
    try:
        found = msgspec.json.decode(content, type=KeySet)
        lengths = [len(one.value) for one in found.keys]
    except (msgspec.DecodeError, binascii.Error, ValueError) as error:
        raise Refusal(f"{SLURM_JWKS} is not a key set: {error}") from error
    if len(set(found.ids)) < len(found.keys) or any(one.alg is None or one.kty is None for one in found.keys):
        raise Refusal(f"{SLURM_JWKS}: every key needs a kid of its own, alg HS256 and kty oct.")
    if min(lengths) < LEAST_BYTES:
        raise Refusal(f"{SLURM_JWKS}: a key has fewer than {LEAST_BYTES} bytes.")
    return found


def _key(kid: str, value: bytes, *, use: str = "") -> SigningKey:
    text = base64.urlsafe_b64encode(value).rstrip(b"=").decode()
    return SigningKey(kid=kid, k=text, use=use, alg="HS256", kty="oct")
