"""What a token says, and which Pod may be called its bearer. Pure rules: nothing here asks anybody.

A projected token of a service account is a JWT. Kubernetes binds it to a Pod, names an audience and an end, and signs
it. The audience is whatever the maker of the token asked for: it keeps a token from being used elsewhere, but says
nothing about where it comes from. That is said by the namespace and by the uid of the Pod, which callers must compare
with the Pods they know.
"""

from base64 import urlsafe_b64decode
from collections.abc import Mapping
from typing import Final

import msgspec
from jwt import PyJWK, PyJWS, PyJWTError
from msgspec import Struct, field

ALGORITHMS: Final = frozenset({"RS256", "ES256", "ES384", "ES512"})
"""Those that API servers sign with. All have a public key: `none` and HMAC must never verify anything."""
LEEWAY: Final = 10.0
"""Seconds by which the clock that we judge by may be wrong."""
_EXTRA: Final = "authentication.kubernetes.io/pod-"
_ACCOUNT: Final = "system:serviceaccount:"
_BAD: Final = (PyJWTError, msgspec.MsgspecError, ValueError, TypeError, RecursionError)
"""What a text that is no token can cause while it is read."""
_signatures: Final = PyJWS(algorithms=sorted(ALGORITHMS))


class Unverifiable(Exception):  # noqa: N818 - named as what it is, like sunk.kube.errors
    """Nobody could say whose token it is. It may be good: the caller should try again."""


class Caller(Struct, frozen=True):
    """The Pod that calls, as Kubernetes vouches for it. Its uid says which Pod of that name."""

    namespace: str
    pod: str
    uid: str


class _Pod(Struct, frozen=True):
    name: str = ""
    uid: str = ""


class _Binding(Struct, frozen=True):
    namespace: str = ""
    pod: _Pod = _Pod()


class Claims(Struct, frozen=True):
    """What is read of a token. Times are in seconds since 1970."""

    iss: str
    aud: str | tuple[str, ...]
    exp: float
    nbf: float = 0.0
    binding: _Binding = field(name="kubernetes.io", default=_Binding())


class _Header(Struct, frozen=True):
    alg: str
    kid: str = ""


_claims: Final = msgspec.json.Decoder(Claims)
_header: Final = msgspec.json.Decoder(_Header)


def key_id(token: str) -> str | None:
    """By which key it says to be signed, empty if it does not say; None if this is no token that we would ever accept."""
    head = token.partition(".")[0]
    try:
        header = _header.decode(urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except _BAD:
        return None
    return header.kid if header.alg in ALGORITHMS else None


def signed(token: str, *, key: PyJWK) -> Claims | None:
    """Read a token that this key has signed, by the algorithm of the key and no other."""
    try:
        return _claims.decode(_signatures.decode(token, key, algorithms=[key.algorithm_name]))
    except _BAD:
        return None


def unsigned(token: str) -> Claims | None:
    """Read a token whose signature was not checked: good for refusing, never for believing."""
    try:
        return _claims.decode(_signatures.decode(token, options={"verify_signature": False}))
    except _BAD:
        return None


def judged(claims: Claims, *, audience: str, now: float) -> Caller | str:
    """Whose token it is, or why it is refused. Who signed it, and in whose name, was asked before."""
    audiences = (claims.aud,) if isinstance(claims.aud, str) else claims.aud
    namespace, pod = claims.binding.namespace, claims.binding.pod
    if audience not in audiences:
        return "it was made for another server"
    if now >= claims.exp + LEEWAY:
        return "it has expired"
    if now < claims.nbf - LEEWAY:
        return "it is not valid yet"
    if not (namespace and pod.name and pod.uid):
        return "it is not bound to a Pod"
    return Caller(namespace=namespace, pod=pod.name, uid=pod.uid)


class User(Struct, frozen=True):
    """Whom a TokenReview found."""

    username: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}


def bearer(user: User) -> Caller | None:
    """The Pod of a user of Kubernetes, if it is one."""
    namespace, _, account = user.username.removeprefix(_ACCOUNT).partition(":")
    names, uids = user.extra.get(f"{_EXTRA}name", ()), user.extra.get(f"{_EXTRA}uid", ())
    if not (user.username.startswith(_ACCOUNT) and namespace and account and len(names) == len(uids) == 1):
        return None
    return Caller(namespace=namespace, pod=names[0], uid=uids[0]) if names[0] and uids[0] else None
