"""Whose token it is.

    token  ──▶  verified lately?  ──▶  key known?  ──▶  signature, issuer, audience, time, Pod  ──▶  Caller
                                           │                    │ signed, but in another name
                                           ▼                    ▼
                                     keys read again  ──▶  TokenReview, if it could be good at all

A signature takes a fraction of a millisecond on the loop, and prologs that retry show the same token again: what was
verified is remembered for a minute, by the hash of the token and never the token itself.

By its signature a token is good until it expires, even if its Pod is long gone. Whoever uses a Caller must know a Pod of
that uid. Times are compared with the API server's clock, which made them, and not with that of this machine.
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final, Literal, Never, get_args

from jwt import PyJWK
from msgspec import Struct

from sunk.kube.api.client import Client
from sunk.model import loopclock
from sunk.model.contract import hooks
from sunk.service.hooks import claims
from sunk.service.hooks.claims import Caller, Claims, Unverifiable
from sunk.service.hooks.keys import SigningKeys, published
from sunk.service.hooks.review import Reviews, review

__all__ = ["Caller", "TokenVerifier", "Unverifiable", "token_verifier"]

log = logging.getLogger(__name__)

LONGEST: Final = 16 * 1024
"""Characters of a token that are looked at. Those of Kubernetes have one to two thousand."""
REMEMBERED: Final = 60.0
"""Seconds for which a signature is not checked again."""
REVIEWED: Final = 10.0
"""Seconds for which the answer of a TokenReview holds, be it yes or no."""
MOST: Final = 20_000
"""Tokens that are remembered."""

Way = Literal["keys", "cache", "review", "refused", "unverifiable"]
WAYS: Final[tuple[Way, ...]] = get_args(Way)


class _Verdict(Struct, frozen=True, gc=False):
    caller: Caller | None
    until: float
    """By the loop's clock."""


class TokenVerifier:
    """`run` keeps the keys fresh, and has to run beside `verify`. `now` is the time by which tokens expire."""

    def __init__(self, *, audience: str, keys: SigningKeys, reviews: Reviews, now: Callable[[], float]) -> None:
        self._audience = audience
        self._keys = keys
        self._reviews = reviews
        self._now = now
        self._verdicts: dict[bytes, _Verdict] = {}
        self._ways: Counter[Way] = Counter()

    async def run(self) -> Never:
        await self._keys.run()

    def statistics(self) -> dict[str, int]:
        """How many tokens were judged in which way."""
        return {way: self._ways[way] for way in WAYS}

    async def verify(self, token: str) -> Caller | None:
        """The Pod that bears this token; None if it is refused. Raises Unverifiable if nobody could say."""
        readable = 0 < len(token) <= LONGEST and token.isascii()
        found = await self._find(token) if readable else "it is empty, too long or no text"
        if isinstance(found, str):
            self._ways["refused"] += 1
            log.debug("token refused: %s", found)
            return None
        return found

    async def _find(self, token: str) -> Caller | str:
        """Whose token it is, or why it is refused."""
        digest = hashlib.sha256(token.encode()).digest()
        verdict = self._verdicts.get(digest)
        if verdict is not None and loopclock.now() < verdict.until:
            return self._accepted(verdict.caller, "cache")
        key_id = claims.key_id(token)
        if key_id is None:
            return "it is no token, or signed in a way that is not accepted"
        key = await self._key(key_id)
        said = claims.signed(token, key=key) if key else None
        if key and said is None:
            return "its signature is wrong"
        # An API server may accept more issuers than the one that it publishes.
        if said is None or said.iss != self._keys.issuer:
            return await self._review(token, digest)
        return self._judge(said, digest)

    async def _key(self, key_id: str) -> PyJWK | None:
        if key_id and self._keys.get(key_id) is None:
            await self._keys.refresh()
        return self._keys.get(key_id)

    def _judge(self, said: Claims, digest: bytes) -> Caller | str:
        now = self._now()
        found = claims.judged(said, audience=self._audience, now=now)
        if isinstance(found, str):
            return found
        self._remember(digest, found, seconds=min(REMEMBERED, said.exp - now))
        return self._accepted(found, "keys")

    async def _review(self, token: str, digest: bytes) -> Caller | str:
        said = claims.unsigned(token)
        found = claims.judged(said, audience=self._audience, now=self._now()) if said else "it cannot be read"
        if isinstance(found, str):
            return found  # even if it were genuine, so nobody has to be asked
        try:
            caller = await self._reviews.caller(token)
        except Unverifiable:
            self._ways["unverifiable"] += 1
            raise
        self._remember(digest, caller, seconds=REVIEWED)
        return self._accepted(caller, "review")

    def _accepted(self, caller: Caller | None, way: Way) -> Caller | str:
        if caller is None:
            return "the API server does not accept it"
        self._ways[way] += 1
        return caller

    def _remember(self, digest: bytes, caller: Caller | None, *, seconds: float) -> None:
        now = loopclock.now()
        self._verdicts.pop(digest, None)  # so that the oldest comes first
        while self._verdicts:
            oldest, verdict = next(iter(self._verdicts.items()))
            if len(self._verdicts) < MOST and now < verdict.until:
                break
            del self._verdicts[oldest]
        self._verdicts[digest] = _Verdict(caller, until=now + seconds)


def token_verifier(client: Client, *, namespace: str, cluster: str) -> TokenVerifier:
    """A verifier of the tokens that Pods of this cluster show."""
    audience = hooks.audience(namespace, cluster)
    return TokenVerifier(
        audience=audience,
        keys=SigningKeys(partial(published, client)),
        reviews=Reviews(partial(review, client=client, audience=audience)),
        now=lambda: client.clock.now().timestamp(),
    )
