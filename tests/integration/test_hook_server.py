"""Tokens of real Pods, by TokenRequest, at a hook server that believes a real API server."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.conftest import Kube
from tests.unit.service.hooks.serving import BINDING, Reply, Served, Source, certificate, write

from sunk.kube.api.client import Deletion
from sunk.kube.auth import access
from sunk.kube.core import PODS, Pod
from sunk.kube.errors import ApiError, Unreachable
from sunk.kube.tasks import running
from sunk.model.contract import hooks
from sunk.model.refusal import Refusal
from sunk.service.hooks import certificate as certificates
from sunk.service.hooks.answers import MOST_BODY
from sunk.service.hooks.keys import CONFIGURATION, KEYS, Published, SigningKeys, published
from sunk.service.hooks.metrics import HookCollector
from sunk.service.hooks.review import Reviews, review
from sunk.service.hooks.server import HookAnswer, HookCall, HookServer, HookServerSettings
from sunk.service.hooks.tokens import Caller, TokenVerifier, token_verifier
from sunk.service.part import Build, Part, Setting
from sunk.service.process import ServiceProcess, ServiceSettings

SPEC = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0}


async def pod(kube: Kube, name: str = "node-0") -> Pod:
    return await kube.client.create(PODS, {"metadata": {"name": name}, "spec": SPEC}, namespace=kube.namespace)


async def token(kube: Kube, bound: Pod | None, *, audience: str | None = "", seconds: int = 600) -> str:
    """As a kubelet asks for one. An audience of None means that of the API server itself."""
    spec: dict[str, Any] = {"expirationSeconds": seconds}
    if audience is not None:
        spec["audiences"] = [audience or hooks.audience(kube.namespace, "slurm")]
    if bound is not None:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": bound.metadata.name, "uid": bound.metadata.uid}
        spec["boundObjectRef"] = reference
    path = f"/api/v1/namespaces/{kube.namespace}/serviceaccounts/default/token"
    reply = await kube.client.post(path, {"spec": spec})
    found: str = msgspec.json.decode(reply)["status"]["token"]
    return found


def caller(kube: Kube, bound: Pod) -> Caller:
    return Caller(namespace=kube.namespace, pod=bound.metadata.name, uid=bound.metadata.uid)


def by_review(kube: Kube) -> TokenVerifier:
    """A verifier that never gets hold of the keys."""

    async def unreadable() -> Published:
        raise Unreachable("the keys are out of reach")

    audience = hooks.audience(kube.namespace, "slurm")
    reviews = Reviews(partial(review, client=kube.client, audience=audience))
    return TokenVerifier(audience=audience, keys=SigningKeys(unreadable), reviews=reviews, now=time.time)


def by_keys(kube: Kube) -> TokenVerifier:
    return token_verifier(kube.client, namespace=kube.namespace, cluster="slurm")


async def test_what_is_no_object_can_be_read_if_it_is_called_by_its_media_type(kube: Kube) -> None:
    assert b"gitVersion" in await kube.client.read("/version")
    assert b"issuer" in await kube.client.read(CONFIGURATION)
    with pytest.raises(ApiError):
        await kube.client.read(KEYS)
    assert b'"keys"' in await kube.client.read(KEYS, accept="application/jwk-set+json")


async def test_the_keys_of_an_api_server_can_be_used(kube: Kube) -> None:
    found = await published(kube.client)
    assert found.issuer.startswith("https://")
    assert found.keys
    assert {key.algorithm_name for key in found.keys.values()} <= {"RS256", "ES256"}


async def test_a_pod_is_known_by_its_token_without_a_question_to_the_api_server(kube: Kube) -> None:
    first, second = await pod(kube), await pod(kube, "node-1")
    verifier = by_keys(kube)
    async with running({"keys": verifier.run()}):
        for one in (first, second, first):
            assert await verifier.verify(await token(kube, one)) == caller(kube, one)
        shown = await token(kube, first)
        for _ in range(3):
            assert await verifier.verify(shown) == caller(kube, first)
    assert verifier.statistics() == {"keys": 4, "cache": 2, "review": 0, "refused": 0, "unverifiable": 0}


async def test_without_keys_the_same_pod_is_known_by_review(kube: Kube) -> None:
    made = await pod(kube)
    verifier = by_review(kube)
    async with running({"keys": verifier.run()}):
        shown = await token(kube, made)
        for _ in range(3):
            assert await verifier.verify(shown) == caller(kube, made)
    assert verifier.statistics() == {"keys": 0, "cache": 2, "review": 1, "refused": 0, "unverifiable": 0}


@pytest.mark.parametrize("made", [by_keys, by_review])
async def test_tokens_for_others_and_of_nobody_are_refused_in_both_ways(kube: Kube, made: Any) -> None:
    bound = await pod(kube)
    verifier: TokenVerifier = made(kube)
    async with running({"keys": verifier.run()}):
        bad = [
            await token(kube, bound, audience=hooks.audience(kube.namespace, "other")),
            await token(kube, bound, audience=hooks.audience("elsewhere", "slurm")),
            await token(kube, bound, audience=None),
            await token(kube, None),
        ]
        assert [await verifier.verify(one) for one in bad] == [None] * len(bad)
    assert verifier.statistics()["refused"] == len(bad)


@pytest.mark.parametrize("made", [by_keys, by_review])
async def test_forged_and_changed_tokens_are_refused_in_both_ways(kube: Kube, made: Any) -> None:
    bound, other = await pod(kube), await pod(kube, "node-1")
    genuine = await token(kube, bound)
    said = jwt.decode(genuine, options={"verify_signature": False})
    header = jwt.get_unverified_header(genuine)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    said[BINDING]["pod"] = {"name": other.metadata.name, "uid": other.metadata.uid}
    head, _, signature = genuine.split(".")
    ours = jwt.encode(said, key, algorithm="RS256", headers={"kid": header["kid"]})
    bad = [
        ours,
        jwt.encode(said, key, algorithm="RS256", headers={"kid": "invented"}),
        f"{head}.{ours.split('.')[1]}.{signature}",
        jwt.encode(said, "", algorithm="none", headers={"kid": header["kid"]}),
        jwt.encode(said, "a secret of thirty-two characters", algorithm="HS256", headers={"kid": header["kid"]}),
    ]
    verifier: TokenVerifier = made(kube)
    async with running({"keys": verifier.run()}):
        assert [await verifier.verify(one) for one in bad] == [None] * len(bad)
        assert await verifier.verify(genuine) == caller(kube, bound)


async def test_the_token_of_a_pod_that_is_gone_still_has_its_signature(kube: Kube) -> None:
    """So whoever admits callers must know a Pod of that uid. A review knows by itself."""
    made = await pod(kube)
    shown = await token(kube, made)
    await kube.client.delete(PODS, "node-0", Deletion(grace_period_seconds=0), namespace=kube.namespace)
    keys, reviews = by_keys(kube), by_review(kube)
    async with running({"keys": keys.run(), "reviews": reviews.run()}):
        assert await keys.verify(shown) == caller(kube, made)
        async with asyncio.timeout(120):  # an API server remembers for some seconds what it found, and so do we
            while await reviews.verify(shown) is not None:
                await asyncio.sleep(0.5)


class Door:
    """Pods that wait at a hook server, as prologs do."""

    def __init__(self, kube: Kube) -> None:
        self.opened = asyncio.Event()
        self.pods: dict[str, str] = {}
        self._namespace = kube.namespace

    async def hook(self, call: HookCall) -> HookAnswer:
        await self.opened.wait()
        return HookAnswer(200, {"result": "locked", "body": call.body.decode()})

    def admit(self, calls: Caller, node: str) -> HookAnswer | None:
        if node not in self.pods:
            return HookAnswer(404, {"message": f"{node} is not known"})
        here = (calls.namespace, calls.pod, calls.uid) == (self._namespace, node, self.pods[node])
        return None if here else HookAnswer(403, {"message": f"{calls.pod} is not {node}"})


@asynccontextmanager
async def served(kube: Kube, folder: Path, door: Door) -> AsyncIterator[Served]:
    made = certificate()
    write(folder, made)
    # Long enough for a machine on which everything stands still for seconds, and short enough to see strangers off.
    settings = HookServerSettings(folder=folder, host="127.0.0.1", port=0, most_calls=1000, patience=20.0)
    server = HookServer(settings, {"pre-hook": door.hook}, verifier=by_keys(kube), admit=door.admit)
    server.bind()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session, running({"server": server.run()}):
        found = Served(server=server, source=Source(), folder=folder, authorities=made.ca, session=session)
        await found.until(lambda: not server.unready())
        yield found


async def test_pods_call_for_their_own_node_and_for_no_other(kube: Kube, tmp_path: Path) -> None:
    door = Door(kube)
    door.opened.set()
    first, second = await pod(kube), await pod(kube, "node-1")
    door.pods = {one.metadata.name: one.metadata.uid for one in (first, second)}
    async with served(kube, tmp_path, door) as found:
        shown = await token(kube, first)
        assert await found.call(token=shown, body=b"{}") == Reply(200, {"result": "locked", "body": "{}"})
        assert (await found.call("/v1/nodes/node-1/pre-hook", token=shown)).status == 403
        assert (await found.call("/v1/nodes/node-2/pre-hook", token=shown)).status == 404
        assert (await found.call(token=await token(kube, second))).status == 403
        assert (await found.call(token="")).status == 401
        assert (await found.call(token=await token(kube, first, audience=None))).status == 401
        assert (await found.call(token=shown, body=b"x" * (MOST_BODY + 1))).status == 413
        door.pods["node-0"] = "uid of a successor"
        assert (await found.call(token=shown)).status == 403


async def test_calls_hang_while_the_certificate_is_renewed_and_strangers_crowd_the_port(
    kube: Kube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "PERIOD", 0.1)
    door, many = Door(kube), 20
    made = [await pod(kube, f"node-{number}") for number in range(many)]
    door.pods = {one.metadata.name: one.metadata.uid for one in made}
    async with served(kube, tmp_path, door) as found:
        shown = [await token(kube, one) for one in made]

        def call(number: int) -> asyncio.Task[Reply]:
            return asyncio.create_task(found.call(f"/v1/nodes/node-{number}/pre-hook", token=shown[number]))

        calls = [call(number) for number in range(many - 1)]
        await found.until(lambda: found.waiting() == many - 1, seconds=60)
        crowd = [await asyncio.open_connection("127.0.0.1", found.server.port) for _ in range(300)]
        renewed = certificate()
        write(tmp_path, renewed)
        await found.until(lambda: found.server.statistics().certificate_loads == 2, seconds=60)
        found.authorities = renewed.ca
        calls.append(call(many - 1))
        await found.until(lambda: found.waiting() == many, seconds=60)
        await found.until(lambda: found.server.statistics().strangers == 0, seconds=60)
        door.opened.set()
        assert {reply.status for reply in await asyncio.gather(*calls)} == {200}
        for _, writer in crowd:
            writer.close()
        assert found.server.statistics().tokens["review"] == 0


class Slow:
    """Work that takes as long to come to its end as the test likes."""

    name = "slow"
    busy = True

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()

    async def run(self) -> None:
        self.begun.set()
        await asyncio.Event().wait()

    async def shut_down(self) -> None:
        await self.may_end.wait()


@asynccontextmanager
async def process(kube: Kube, *, port: int, build: Build) -> AsyncIterator[tuple[asyncio.Task[None], asyncio.Event]]:
    settings = ServiceSettings(name="hooks", lease_namespace=kube.namespace, host="127.0.0.1", port=port)
    told = asyncio.Event()
    made = ServiceProcess(settings, access=access.from_kubeconfig(kube.kubeconfig))
    task = asyncio.create_task(made.serve((build,), told=told))
    try:
        yield task, told
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def test_in_a_process_calls_are_sent_away_the_moment_it_is_told_to_stop(
    kube: Kube, tmp_path: Path, unused_tcp_port: int
) -> None:
    door, made, slow = Door(kube), await pod(kube), Slow()
    door.pods = {"node-0": made.metadata.uid}
    servers: list[HookServer] = []

    def build(setting: Setting) -> Part:
        verifier = token_verifier(setting.client, namespace=kube.namespace, cluster="slurm")
        settings = HookServerSettings(folder=tmp_path, host="127.0.0.1", port=0, most_calls=1000, patience=60.0)
        server = HookServer(settings, {"pre-hook": door.hook}, verifier=verifier, admit=door.admit)
        server.bind()
        servers.append(server)
        return Part(
            "hooks",
            follows=(),
            work=(slow,),
            duties={"serve hooks": server.run},
            unready={"hooks": server.unready},
            on_stop=(server.stop,),
            collectors=(HookCollector(server.statistics, prefix="sunk_test"),),
        )

    async def ask(path: str) -> tuple[int, str]:
        async with session.get(f"http://127.0.0.1:{unused_tcp_port}{path}") as answer:
            return answer.status, await answer.text()

    async with aiohttp.ClientSession() as session, process(kube, port=unused_tcp_port, build=build) as (task, told):
        async with asyncio.timeout(90):
            while not servers:
                await asyncio.sleep(0.05)
            await slow.begun.wait()
        (server,) = servers
        issued = certificate()
        found = Served(server=server, source=Source(), folder=tmp_path, authorities=issued.ca, session=session)
        async with asyncio.timeout(90):
            while "tls.crt" not in (await ask("/readyz"))[1]:
                await asyncio.sleep(0.1)
        assert (await ask("/readyz"))[0] == 503
        write(tmp_path, issued)
        await found.until(lambda: not server.unready())
        async with asyncio.timeout(90):
            while (await ask("/readyz"))[0] != 200:
                await asyncio.sleep(0.1)
        call = asyncio.create_task(found.call(token=await token(kube, made)))
        await found.until(lambda: found.waiting() == 1)
        assert 'sunk_test_hook_calls{hook="pre-hook"} 1.0' in (await ask("/metrics"))[1]
        told.set()
        assert await call == Reply(503, {"message": "stopping; try again"})
        assert not task.done()
        slow.may_end.set()
        await task


async def test_a_port_that_is_taken_ends_the_process_with_a_sentence(
    kube: Kube, tmp_path: Path, unused_tcp_port_factory: Callable[[], int]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]

        def build(setting: Setting) -> Part:
            verifier = token_verifier(setting.client, namespace=kube.namespace, cluster="slurm")
            settings = HookServerSettings(folder=tmp_path, host="127.0.0.1", port=taken)
            server = HookServer(settings, {}, verifier=verifier, admit=Door(kube).admit)
            server.bind()
            return Part("hooks", follows=(), duties={"serve hooks": server.run})

        async with process(kube, port=unused_tcp_port_factory(), build=build) as (task, _):
            with pytest.raises(Refusal, match=str(taken)):
                await asyncio.wait_for(task, 90)
