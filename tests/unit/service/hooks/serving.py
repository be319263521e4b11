"""A hook server on a port of its own, tokens that it believes, and callers."""

import asyncio
import base64
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import aiohttp
import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt import PyJWK
from jwt.algorithms import ECAlgorithm
from msgspec import Struct, structs

from sunk.kube.errors import Unreachable
from sunk.kube.tasks import running
from sunk.operator.slurmcluster.rollout.issuing import NewCertificate, issue
from sunk.service.hooks.keys import Published, SigningKeys
from sunk.service.hooks.review import Reviews
from sunk.service.hooks.server import Admit, Hook, HookAnswer, HookServer, HookServerSettings
from sunk.service.hooks.tokens import Caller, TokenVerifier

NAME: Final = "slurm-syncer.slurm.svc"
AUDIENCE: Final = "sunk.test/slurm/slurm"
ISSUER: Final = "https://kubernetes.default.svc"
POD: Final = {"name": "node-0", "uid": "uid-0"}
BOUND: Final[dict[str, Any]] = {"namespace": "slurm", "pod": POD}
CALLER: Final = Caller(namespace="slurm", pod="node-0", uid="uid-0")
BINDING: Final = "kubernetes.io"


class Signer:
    """A key as an API server has one."""

    def __init__(self, key_id: str = "first") -> None:
        self.key: Final = ec.generate_private_key(ec.SECP256R1())
        self.key_id: Final = key_id

    def public(self) -> PyJWK:
        found = ECAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        return PyJWK(found | {"kid": self.key_id, "alg": "ES256", "use": "sig"})

    def token(
        self,
        changes: dict[str, Any] | None = None,
        /,
        *,
        seconds: float = 3600,
        headers: dict[str, Any] | None = None,
        **more: Any,
    ) -> str:
        """A good token, but for the changes."""
        payload = said(seconds=seconds) | (changes or {}) | more
        return jwt.encode(payload, self.key, algorithm="ES256", headers={"kid": self.key_id} | (headers or {}))

    def token_of(self, number: int) -> str:
        return self.token({BINDING: bound_to(number)})


def said(*, seconds: float = 3600, now: float | None = None) -> dict[str, Any]:
    """What a good token says."""
    now = time.time() if now is None else now
    return {"iss": ISSUER, "aud": [AUDIENCE], "exp": now + seconds, "nbf": now, BINDING: BOUND}


def bound_to(number: int) -> dict[str, Any]:
    return {"namespace": "slurm", "pod": {"name": f"node-{number}", "uid": f"uid-{number}"}}


def unsigned(header: dict[str, Any] | str, payload: dict[str, Any] | str, signature: bytes = b"") -> str:
    """A token with whatever in it."""
    texts = (part if isinstance(part, str) else json.dumps(part) for part in (header, payload))
    return ".".join(
        base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in (*map(str.encode, texts), signature)
    )


class Source:
    """What publishes keys, and how often it was asked."""

    def __init__(self, *signers: Signer) -> None:
        self.signers = list(signers)
        self.reads = 0
        self.broken = False

    async def read(self) -> Published:
        self.reads += 1
        await asyncio.sleep(0.01)
        if self.broken:
            raise Unreachable("no route")
        return Published(issuer=ISSUER, keys={signer.key_id: signer.public() for signer in self.signers})


async def nobody(token: str) -> Caller | None:
    raise Unreachable(f"nobody reviews {len(token)} characters")


def verifier(
    source: Source,
    *,
    review: Callable[[str], Awaitable[Caller | None]] = nobody,
    now: Callable[[], float] = time.time,
) -> TokenVerifier:
    return TokenVerifier(audience=AUDIENCE, keys=SigningKeys(source.read), reviews=Reviews(review), now=now)


def certificate() -> NewCertificate:
    return issue((NAME,), now=datetime.now(UTC))


def write(folder: Path, made: NewCertificate) -> None:
    """As a kubelet does: a new folder, and a link that is swapped."""
    version = folder / f"..{time.monotonic_ns()}"
    version.mkdir(parents=True)
    (version / "tls.crt").write_text(made.certificate)
    (version / "tls.key").write_text(made.key)
    swap = folder / "..data_tmp"
    swap.symlink_to(version.name)
    swap.rename(folder / "..data")
    for name in ("tls.crt", "tls.key"):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")


def trusting(*authorities: str) -> ssl.SSLContext:
    return ssl.create_default_context(cadata="\n".join(authorities))


class Reply(Struct, frozen=True):
    status: int
    body: dict[str, Any]


def everybody(_: Caller, __: str) -> HookAnswer | None:
    return None


class Served(Struct):
    """A server, and what its callers need."""

    server: HookServer
    source: Source
    folder: Path
    authorities: str
    session: aiohttp.ClientSession

    @property
    def signer(self) -> Signer:
        return self.source.signers[0]

    def tls(self) -> ssl.SSLContext:
        return trusting(self.authorities)

    async def call(
        self,
        path: str = "/v1/nodes/node-0/pre-hook",
        *,
        token: str | None = None,
        method: str = "POST",
        body: Any = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        shown = self.signer.token() if token is None else token
        sent = {"Authorization": f"Bearer {shown}"} if shown else {}
        url = f"https://127.0.0.1:{self.server.port}{path}"
        options: dict[str, Any] = {"headers": sent | (headers or {}), "data": body}
        async with self.session.request(
            method, url, ssl=self.tls(), server_hostname=NAME, allow_redirects=False, **options
        ) as reply:
            return Reply(reply.status, await reply.json())

    async def persist(self) -> Reply:
        """Call as prologs do, again and again: a machine that is busy may be too slow for a server in a hurry."""
        async with asyncio.timeout(60):
            while True:
                with suppress(aiohttp.ClientConnectionError):
                    return await self.call()

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection after its handshake."""
        async with asyncio.timeout(60):
            while True:
                with suppress(ConnectionError):
                    return await asyncio.open_connection(
                        "127.0.0.1", self.server.port, ssl=self.tls(), server_hostname=NAME
                    )

    async def until(self, check: Callable[[], bool], *, seconds: float = 60) -> None:
        async with asyncio.timeout(seconds):
            while not check():
                await asyncio.sleep(0.01)

    def waiting(self, hook: str = "pre-hook") -> int:
        return self.server.statistics().calls[hook]


@asynccontextmanager
async def served(
    folder: Path, hooks: dict[str, Hook], *, admit: Admit = everybody, **settings: Any
) -> AsyncIterator[Served]:
    made = certificate()
    write(folder, made)
    chosen = structs.replace(
        HookServerSettings(folder=folder, host="127.0.0.1", port=0, most_calls=1000, patience=60.0), **settings
    )
    source = Source(Signer())
    server = HookServer(chosen, hooks, verifier=verifier(source), admit=admit)
    server.bind()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session, running({"server": server.run()}):
        found = Served(server=server, source=source, folder=folder, authorities=made.ca, session=session)
        await found.until(lambda: not server.unready())
        yield found
