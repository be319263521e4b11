"""The hook server over real TLS connections, on both event loops that it may run on."""

import asyncio
import logging
import socket
import ssl
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from tests.unit.service.hooks.serving import (
    NAME,
    Reply,
    Served,
    Signer,
    Source,
    certificate,
    everybody,
    said,
    served,
    unsigned,
    verifier,
    write,
)

from sunk.kube.tasks import running
from sunk.model import faults
from sunk.model.refusal import Refusal
from sunk.service.hooks import certificate as certificates
from sunk.service.hooks.answers import MOST_BODY
from sunk.service.hooks.metrics import HookCollector
from sunk.service.hooks.server import HookAnswer, HookCall, HookServer, HookServerSettings
from sunk.service.hooks.tokens import Caller


@pytest.fixture(autouse=True)
def no_faults() -> Iterator[None]:
    """What one test breaks is not told in the next."""
    yield
    for where in [where for where in faults.lasting if where.startswith("hook server")]:
        faults.over(where)


class Gate:
    """A hook that waits until it is opened."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.calls: list[HookCall] = []
        self.cancelled = 0

    async def __call__(self, call: HookCall) -> HookAnswer:
        self.calls.append(call)
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return HookAnswer(200, {"result": "locked", "node": call.node})


async def echo(call: HookCall) -> HookAnswer:
    return HookAnswer(200, {"node": call.node, "body": call.body.decode(), "pod": call.caller.pod})


def only_itself(caller: Caller, node: str) -> HookAnswer | None:
    return None if caller.pod == node else HookAnswer(403, {"message": f"{caller.pod} is not {node}"})


async def test_a_call_reaches_its_hook_with_caller_node_and_body(tmp_path: Path) -> None:
    async with served(tmp_path, {"pre-hook": echo, "hello": echo}, admit=only_itself) as found:
        reply = await found.call(body=b'{"job":1}')
        assert reply == Reply(200, {"node": "node-0", "body": '{"job":1}', "pod": "node-0"})
        assert (await found.call("/v1/nodes/node-0/hello", method="GET")).status == 200
        statistics = found.server.statistics()
        assert statistics.answers == {("pre-hook", 200): 1, ("hello", 200): 1}
        assert statistics.calls == {"pre-hook": 0, "hello": 0}
        assert statistics.strangers == 0


async def test_callers_without_a_good_token_are_refused(tmp_path: Path) -> None:
    asked: list[Caller] = []

    def admit(caller: Caller, _: str) -> HookAnswer | None:
        asked.append(caller)
        return None

    async with served(tmp_path, {"pre-hook": echo}, admit=admit) as found:
        signer = found.signer
        bad = [
            "",
            "garbage",
            signer.token(aud=["sunk.test/slurm/other"]),
            signer.token(seconds=-60),
            signer.token({"kubernetes.io": {"namespace": "slurm"}}),
            unsigned({"alg": "none", "kid": "first"}, said()),
            unsigned({"alg": "HS256", "kid": "first"}, said(), b"x" * 32),
            Signer("first").token(),
            "x" * 17_000,
        ]
        for token in bad:
            reply = await found.call(token=token)
            assert reply.status == 401, token
            assert "token" in reply.body["message"]
        for scheme in ("Basic YTpi", "bearer", "Bearer", f"Token {signer.token()}"):
            assert (await found.call(token="", headers={"Authorization": scheme})).status == 401
        assert (await found.call("/anything", token="")).status == 401
        assert asked == []
        assert found.server.statistics().tokens["refused"] == len(bad) + 5


async def test_a_token_that_nobody_can_verify_is_answered_with_try_again(tmp_path: Path) -> None:
    async with served(tmp_path, {"pre-hook": echo}) as found:
        reply = await found.call(token=Signer("unknown").token())
        assert reply.status == 503
        assert "try again" in reply.body["message"]


async def test_a_pod_may_not_speak_for_another_node_and_its_body_is_not_read(tmp_path: Path) -> None:
    async with served(tmp_path, {"pre-hook": echo}, admit=only_itself) as found:
        reply = await found.call(token=found.signer.token_of(1), body=b"x" * 2 * MOST_BODY)
        assert reply == Reply(403, {"message": "node-1 is not node-0"})


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v1/nodes/node-0/unknown", 404),
        ("POST", "/v1/nodes/node-0/", 404),
        ("POST", "/v1/nodes/node-0/pre-hook/", 404),
        ("POST", "/v1/nodes/../pre-hook", 404),
        ("POST", "/v1/nodes/a%2Fb/pre-hook", 404),
        ("POST", "/v1/nodes/a%0Ab/pre-hook", 404),
        ("POST", "/v1/nodes/-/pre-hook", 404),
        ("POST", "/", 404),
        ("GET", "/v1/nodes/node-0/pre-hook", 405),
        ("PUT", "/v1/nodes/node-0/pre-hook", 405),
        ("DELETE", "/v1/nodes/node-0/hello", 405),
        ("POST", "/v1/nodes/node-0/hello", 405),
    ],
)
async def test_other_paths_and_methods_are_refused_in_words(
    tmp_path: Path, method: str, path: str, status: int
) -> None:
    async with served(tmp_path, {"pre-hook": echo, "hello": echo}) as found:
        reply = await found.call(path, method=method)
        assert reply.status == status
        assert reply.body["message"]


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_is_too_large_is_refused(tmp_path: Path, *, chunked: bool) -> None:
    async with served(tmp_path, {"pre-hook": echo}) as found:

        async def parts() -> Any:
            for _ in range(20):
                yield b"x" * 8192

        reply = await found.call(body=parts() if chunked else b"x" * (MOST_BODY + 1))
        assert reply.status == 413
        assert str(MOST_BODY) in reply.body["message"]
        assert (await found.call(body=b"x" * MOST_BODY)).status == 200


async def test_a_body_that_does_not_come_is_refused_and_not_as_a_time_out(tmp_path: Path) -> None:
    """A prolog takes 408 for work that did not leave the Node, and drains it."""
    async with served(tmp_path, {"pre-hook": echo}, patience=3.0) as found:
        reader, writer = await found.open()
        head = request(found, length=100)
        writer.write(head + b"only this")
        answer = await asyncio.wait_for(reader.read(), 60)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b'"message"' in answer
        writer.close()


def request(found: Served, *, length: int = 0, token: str | None = None) -> bytes:
    shown = found.signer.token() if token is None else token
    lines = (
        "POST /v1/nodes/node-0/pre-hook HTTP/1.1",
        f"Host: {NAME}",
        f"Authorization: Bearer {shown}",
        f"Content-Length: {length}",
    )
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


@pytest.mark.parametrize("text", [b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET " + b"/" * 9000])
async def test_what_is_no_http_is_answered_in_json(
    tmp_path: Path, text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path, {"pre-hook": echo}) as found:
        reader, writer = await found.open()
        writer.write(text)
        answer = await asyncio.wait_for(reader.read(), 60)
        assert b" 400 " in answer.partition(b"\r\n")[0]
        assert b'"message"' in answer
        writer.close()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_hook_that_raises_is_a_500_is_said_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def breaks(call: HookCall) -> HookAnswer:
        if call.body == b"time":
            raise TimeoutError("of its own")
        if call.body == b"unsendable":
            return HookAnswer(200, {"result": object()})
        raise ValueError("something secret")

    before = faults.counts["hook server: pre-hook"]
    async with served(tmp_path, {"pre-hook": breaks, "hello": echo}) as found:
        for body in (b"", b"time", b"unsendable"):
            reply = await found.call(body=body)
            assert reply.status == 500
            assert "secret" not in str(reply.body)
            assert reply.body["message"]
        assert "something secret" in caplog.text
        assert faults.counts["hook server: pre-hook"] == before + 3
        assert (await found.call("/v1/nodes/node-0/hello", method="GET")).status == 200


async def test_a_rule_of_admission_that_raises_admits_nobody(tmp_path: Path) -> None:
    def admit(_: Caller, __: str) -> HookAnswer | None:
        raise KeyError("nothing known")

    async with served(tmp_path, {"pre-hook": echo}, admit=admit) as found:
        assert (await found.call()).status == 500


async def test_a_caller_that_hangs_up_cancels_its_hook(tmp_path: Path) -> None:
    gate = Gate()
    async with served(tmp_path, {"pre-hook": gate}) as found:
        call = asyncio.create_task(found.call())
        await found.until(lambda: len(gate.calls) == 1)
        call.cancel()
        await found.until(lambda: gate.cancelled == 1)
        await found.until(lambda: found.waiting() == 0)
        assert found.server.statistics().answers == {("pre-hook", 499): 1}


async def test_half_a_hang_up_counts_as_one(tmp_path: Path) -> None:
    gate = Gate()
    async with served(tmp_path, {"pre-hook": gate}) as found:
        connected = socket.create_connection(("127.0.0.1", found.server.port))
        _, writer = await asyncio.open_connection(sock=connected, ssl=found.tls(), server_hostname=NAME)
        writer.write(request(found))
        await found.until(lambda: len(gate.calls) == 1)
        connected.shutdown(socket.SHUT_WR)
        await found.until(lambda: gate.cancelled == 1)
        writer.close()


async def test_many_calls_hang_at_once_and_are_answered_when_their_hook_is(tmp_path: Path) -> None:
    gate, many = Gate(), 200
    async with served(tmp_path, {"pre-hook": gate}) as found:
        calls = [
            asyncio.create_task(found.call(f"/v1/nodes/node-{n}/pre-hook", token=found.signer.token_of(n)))
            for n in range(many)
        ]
        await found.until(lambda: found.waiting() == many, seconds=120)
        gate.opened.set()
        replies = await asyncio.gather(*calls)
        assert {reply.status for reply in replies} == {200}
        assert [reply.body["node"] for reply in replies] == [f"node-{n}" for n in range(many)]


async def test_there_are_at_most_so_many_calls_and_so_many_of_a_pod(tmp_path: Path) -> None:
    gate = Gate()
    async with served(tmp_path, {"pre-hook": gate}, most_calls=3, most_calls_of_pod=2) as found:
        first = [asyncio.create_task(found.call()) for _ in range(2)]
        await found.until(lambda: found.waiting() == 2)
        assert (await found.call()).status == 429
        first.append(asyncio.create_task(found.call(token=found.signer.token_of(1))))
        await found.until(lambda: found.waiting() == 3)
        full = await found.call(token=found.signer.token_of(2))
        assert full.status == 503
        assert "try again" in full.body["message"]
        gate.opened.set()
        assert [reply.status for reply in await asyncio.gather(*first)] == [200, 200, 200]
        assert (await found.call()).status == 200


async def test_a_hook_that_never_ends_is_ended(tmp_path: Path) -> None:
    gate = Gate()
    async with served(tmp_path, {"pre-hook": gate}, longest=0.3) as found:
        assert (await found.call()).status == 503
        assert gate.cancelled == 1


async def test_when_the_process_stops_hanging_calls_are_told_to_try_again(tmp_path: Path) -> None:
    gate, many = Gate(), 20
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        async with served(tmp_path, {"pre-hook": gate}) as found:
            found.session = session  # one that stays
            idle = await found.open()
            calls = [asyncio.create_task(found.call(token=found.signer.token_of(n))) for n in range(many)]
            await found.until(lambda: found.waiting() == many)
            port = found.server.port
        replies = await asyncio.gather(*calls)
    assert {reply.status for reply in replies} == {503}
    assert {reply.body["message"] for reply in replies} == {"stopping; try again"}
    assert gate.cancelled == many
    assert await asyncio.wait_for(idle[0].read(), 60) == b""
    idle[1].close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_after_a_stop_new_calls_are_told_so_too(tmp_path: Path) -> None:
    async with served(tmp_path, {"pre-hook": echo}) as found:
        found.server.stop()
        assert await found.call() == Reply(503, {"message": "stopping; try again"})


async def test_headers_that_come_a_byte_at_a_time_are_cut_off_and_others_served(tmp_path: Path) -> None:
    async with served(tmp_path, {"pre-hook": echo}, patience=3.0) as found:
        reader, writer = await found.open()

        async def drip() -> None:
            for byte in request(found):
                writer.write(bytes([byte]))
                await asyncio.sleep(0.05)

        dripping = asyncio.create_task(drip())
        assert (await found.persist()).status == 200
        assert await asyncio.wait_for(reader.read(), 60) == b""
        dripping.cancel()
        await asyncio.wait((dripping,))
        writer.close()
        await found.until(lambda: found.server.statistics().strangers == 0)


@pytest.mark.parametrize("token", [None, "nonsense"])
async def test_headers_that_are_large_together_are_cut_off_before_they_are_kept(
    tmp_path: Path, token: str | None
) -> None:
    async with served(tmp_path, {"pre-hook": echo}) as found:
        reader, writer = await found.open()
        head = request(found, token=token).removesuffix(b"\r\n")
        more = b"".join(b"X-%d: %s\r\n" % (number, b"x" * 16_000) for number in range(3))
        writer.write(head + more + b"\r\n")
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()
        assert (await found.call()).status == 200


async def test_a_handshake_that_never_ends_is_cut_off_and_others_are_served(tmp_path: Path) -> None:
    async with served(tmp_path, {"pre-hook": echo}, patience=3.0) as found:
        silent = [await asyncio.open_connection("127.0.0.1", found.server.port) for _ in range(10)]
        half = silent[0][1]
        half.write(b"\x16\x03\x01\x02\x00\x01")  # a record that promises a hello
        assert (await found.persist()).status == 200
        for reader, writer in silent:
            assert await asyncio.wait_for(reader.read(), 60) == b""
            writer.close()
        await found.until(lambda: found.server.statistics().strangers == 0)


async def test_what_speaks_no_tls_is_cut_off(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with served(tmp_path, {"pre-hook": echo}) as found:
        reader, writer = await asyncio.open_connection("127.0.0.1", found.server.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert not (await asyncio.wait_for(reader.read(), 60)).startswith(b"HTTP")
        writer.close()
        assert (await found.call()).status == 200
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_old_tls_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path, {"pre-hook": echo}) as found:
        old = found.tls()
        old.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings(action="ignore"):
            old.minimum_version = ssl.TLSVersion.TLSv1
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("127.0.0.1", found.server.port, ssl=old, server_hostname=NAME)
        newer = found.tls()
        newer.maximum_version = ssl.TLSVersion.TLSv1_2
        _, writer = await asyncio.open_connection("127.0.0.1", found.server.port, ssl=newer, server_hostname=NAME)
        writer.close()


async def test_strangers_make_room_for_others_the_oldest_first(tmp_path: Path) -> None:
    gate = Gate()
    async with served(tmp_path, {"pre-hook": gate}, most_strangers=20) as found:
        port = found.server.port
        hanging = asyncio.create_task(found.call())
        await found.until(lambda: found.waiting() == 1)
        idle = [await found.open() for _ in range(10)]
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
        await found.until(lambda: found.server.statistics().cut == 190)
        assert found.server.statistics().strangers == 20
        for reader, writer in (*idle, *silent[:180]):
            assert await asyncio.wait_for(_rest(reader), 60) == b""
            writer.close()
        second = asyncio.create_task(found.call(token=found.signer.token_of(1)))
        await found.until(lambda: found.waiting() == 2)
        gate.opened.set()
        assert [reply.status for reply in await asyncio.gather(hanging, second)] == [200, 200]
        for _, writer in silent[180:]:
            writer.close()


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def test_what_is_sent_behind_a_call_is_not_kept(tmp_path: Path) -> None:
    gate = Gate()
    async with served(tmp_path, {"pre-hook": gate}) as found:
        reader, writer = await found.open()
        writer.write(request(found))
        await found.until(lambda: len(gate.calls) == 1)
        for _ in range(50):
            writer.write(request(found) * 20)
            await asyncio.wait_for(writer.drain(), 60)
        await asyncio.sleep(0.2)
        gate.opened.set()
        answer = await asyncio.wait_for(_rest(reader), 60)
        assert answer.count(b"HTTP/1.1 200") == 1
        assert len(gate.calls) == 1
        writer.close()


async def test_a_renewed_certificate_is_shown_to_new_callers_while_calls_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "PERIOD", 0.05)
    gate = Gate()
    async with served(tmp_path, {"pre-hook": gate}) as found:
        hanging = [asyncio.create_task(found.call(token=found.signer.token_of(n))) for n in range(5)]
        await found.until(lambda: found.waiting() == 5)
        renewed = certificate()
        write(tmp_path, renewed)
        await found.until(lambda: found.server.statistics().certificate_loads == 2)
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await found.call()
        found.authorities = renewed.ca
        hanging.append(asyncio.create_task(found.call()))
        await found.until(lambda: found.waiting() == 6)
        gate.opened.set()
        assert {reply.status for reply in await asyncio.gather(*hanging)} == {200}


async def test_without_a_certificate_nobody_is_answered_until_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "PERIOD", 0.05)
    settings = HookServerSettings(folder=tmp_path, host="127.0.0.1", port=0, patience=60.0)
    source = Source(Signer())
    server = HookServer(settings, {"pre-hook": echo}, verifier=verifier(source), admit=everybody)
    async with aiohttp.ClientSession() as session, running({"server": server.run()}):
        async with asyncio.timeout(60):
            while "tls.crt" not in server.unready():
                await asyncio.sleep(0.05)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", server.port)
        made = certificate()
        write(tmp_path, made)
        found = Served(server=server, source=source, folder=tmp_path, authorities=made.ca, session=session)
        await found.until(lambda: not server.unready())
        assert (await found.call()).status == 200


async def test_a_port_that_is_taken_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        settings = HookServerSettings(folder=tmp_path, host="127.0.0.1", port=port)
        server = HookServer(settings, {}, verifier=verifier(Source()), admit=everybody)
        with pytest.raises(Refusal, match=f"127.0.0.1:{port}.*Address already in use"):
            server.bind()


async def test_scrapers_are_told_of_calls_answers_and_tokens(tmp_path: Path) -> None:
    gate = Gate()
    async with served(tmp_path, {"pre-hook": gate, "hello": echo}) as found:
        registry = CollectorRegistry()
        registry.register(HookCollector(found.server.statistics, prefix="sunk_test"))
        hanging = asyncio.create_task(found.call())
        await found.until(lambda: found.waiting() == 1)
        await found.call(token="bad")  # noqa: S106 - it is none
        text = generate_latest(registry).decode()
        for line in (
            'sunk_test_hook_calls{hook="pre-hook"} 1.0',
            'sunk_test_hook_calls{hook="hello"} 0.0',
            'sunk_test_hook_answers_total{hook="pre-hook",status="401"} 1.0',
            'sunk_test_hook_tokens_total{way="keys"} 1.0',
            'sunk_test_hook_tokens_total{way="refused"} 1.0',
            "sunk_test_hook_certificate_loads_total 1.0",
        ):
            assert line in text
        gate.opened.set()
        await hanging
