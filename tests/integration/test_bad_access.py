"""Bad tokens, lost connections, missing rights and resources, odd objects and clocks, on a real API server."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import Struct, json
from msgspec.structs import replace
from tests.cable import Cable
from tests.conftest import Kube

from sunk.kube.api.client import Client, Scope
from sunk.kube.api.exchange import Exchange
from sunk.kube.api.limits import Bucket
from sunk.kube.api.patch import Merge
from sunk.kube.api.retry import Retry
from sunk.kube.auth import access
from sunk.kube.auth.credentials import Token, TokenFile
from sunk.kube.auth.plugin import Plugin
from sunk.kube.cache.view import Synced
from sunk.kube.cache.watch import Watch, WatchPace
from sunk.kube.control import lease
from sunk.kube.control.lease import LeaderElection
from sunk.kube.control.term import LeaseTiming
from sunk.kube.core import CONFIG_MAPS, NODES
from sunk.kube.errors import Forbidden, Unauthorized, Unreachable
from sunk.kube.resource import Key, Record, Resource

PATIENCE = 60.0
HASTY = WatchPace(first_delay=0.02, longest_delay=0.05, refused_delay=0.1)
V1 = "client.authentication.k8s.io/v1"


class UserInfo(Struct):
    username: str


class ReviewStatus(Struct, rename="camel"):
    user_info: UserInfo


class Review(Struct):
    status: ReviewStatus


async def whoami(client: Client) -> str:
    reply = await client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    return json.decode(reply, type=Review).status.user_info.username


SECRETS = Resource(Record, version="v1", plural="secrets")


async def token(kube: Kube, *, ended: bool = False) -> str:
    """Make a token of an account that may do nothing. The shortest life is ten minutes, so one ends with a Secret."""
    name = "ended" if ended else "nobody"
    secret = await kube.client.create(SECRETS, {"metadata": {"name": name}}, namespace=kube.namespace)
    bound = {"apiVersion": "v1", "kind": "Secret", "name": name, "uid": secret.metadata.uid}
    path = f"/api/v1/namespaces/{kube.namespace}/serviceaccounts"
    await kube.client.post(path, {"metadata": {"name": name}})
    reply = await kube.client.post(f"{path}/{name}/token", {"spec": {"boundObjectRef": bound}})
    if ended:
        await kube.client.delete(SECRETS, name, namespace=kube.namespace)
    made: str = json.decode(reply)["status"]["token"]
    return made


def bare(kube: Kube) -> access.Access:
    """The way to the server, without its administrator's certificate."""
    config = yaml.safe_load(kube.kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    anonymous = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "contexts": [{"name": "x", "context": {"cluster": "c"}}],
        "current-context": "x",
    }
    path = kube.kubeconfig.parent / f"anonymous-{kube.namespace}"
    path.write_text(yaml.safe_dump(anonymous))
    try:
        return access.from_kubeconfig(path)
    finally:
        path.unlink()


def account(kube: Kube) -> str:
    return f"system:serviceaccount:{kube.namespace}:nobody"


async def test_a_token_that_ended_is_read_again_from_its_file(kube: Kube, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(await token(kube, ended=True))
    async with Client(replace(bare(kube), credentials=TokenFile(file))) as client:
        with pytest.raises(Unauthorized):
            await whoami(client)
        file.write_text(await token(kube))
        assert await whoami(client) == account(kube)


def program(kube: Kube, folder: Path, script: str) -> access.Access:
    """A kubeconfig whose user gets credentials from a script."""
    login = folder / "login"
    login.write_text(f"#!/bin/sh\n{script}\n")
    login.chmod(0o755)
    config = yaml.safe_load(kube.kubeconfig.read_text())
    entry = {"command": "./login", "apiVersion": V1, "interactiveMode": "Never"}
    config["users"] = [{"name": user["name"], "user": {"exec": entry}} for user in config["users"]]
    path = folder / "config"
    path.write_text(yaml.safe_dump(config))
    return access.from_kubeconfig(path)


async def test_a_program_is_run_again_when_its_token_ended(kube: Kube, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(await token(kube, ended=True))
    answer = f'{{"apiVersion": "{V1}", "status": {{"token": "%s"}}}}'
    found = program(kube, tmp_path, f"printf '{answer}' $(cat {file})")
    assert isinstance(found.credentials, Plugin)
    async with Client(found) as client:
        with pytest.raises(Unauthorized):
            await whoami(client)
        file.write_text(await token(kube))
        names = await asyncio.gather(*(whoami(client) for _ in range(20)))
    assert set(names) == {account(kube)}
    assert found.credentials.runs == 3, "one, one more at the first refusal, and one for all twenty"


async def test_a_program_may_answer_with_a_certificate(kube: Kube, tmp_path: Path) -> None:
    pki = kube.kubeconfig.parent
    status = {
        "clientCertificateData": (pki / "client.crt").read_text(),
        "clientKeyData": (pki / "client.key").read_text(),
    }
    (tmp_path / "answer").write_bytes(json.encode({"apiVersion": V1, "status": status}))
    async with Client(program(kube, tmp_path, f"cat {tmp_path}/answer")) as client:
        assert await whoami(client) == "kube-apiserver"


async def test_a_program_that_fails_is_named_and_the_request_is_never_sent(kube: Kube, tmp_path: Path) -> None:
    async with Client(program(kube, tmp_path, "echo please log in >&2; exit 1")) as client:
        with pytest.raises(Unreachable, match=r'"\./login" exited with code 1: please log in') as lost:
            await client.list(NODES)
    assert not lost.value.sent


async def test_who_may_not_read_is_told_so(kube: Kube) -> None:
    async with Client(replace(bare(kube), credentials=Token(await token(kube)))) as client:
        with pytest.raises(Forbidden, match="cannot list resource"):
            await client.list(NODES)


# Watches that cannot be what they should


@asynccontextmanager
async def watching(
    client: Client, resource: Resource[Any], scope: Scope
) -> AsyncIterator[tuple[Watch[Any], list[Any]]]:
    """Run a watch beside the test."""
    heard: list[Any] = []
    watch = Watch(client, resource, scope, pace=HASTY)

    async def run() -> None:
        async with aclosing(watch.events()) as events:
            async for event in events:
                heard.append(event)  # noqa: PERF401 - it never ends

    task = asyncio.create_task(run(), name="watch")
    yield watch, heard
    task.cancel()
    await asyncio.wait((task,))


async def until(check: Any) -> None:
    async with asyncio.timeout(PATIENCE):
        while not check():
            await asyncio.sleep(0.02)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


async def test_a_watch_without_rights_keeps_trying_and_says_so_once(
    kube: Kube, caplog: pytest.LogCaptureFixture
) -> None:
    powerless = replace(bare(kube), credentials=Token(await token(kube)))
    async with Client(powerless) as client, watching(client, NODES, Scope()) as (watch, _):
        await until(lambda: watch.statistics().failures >= 5)
    (line,) = warnings(caplog)
    assert "403 Forbidden" in line


async def test_a_watch_of_a_resource_that_is_not_installed_waits_for_it(
    kube: Kube, caplog: pytest.LogCaptureFixture
) -> None:
    plural = f"wonders{kube.namespace[-8:]}"
    wonders = Resource(Record, group="sunk.test", version="v1", plural=plural)
    async with watching(kube.client, wonders, Scope()) as (watch, heard):
        await until(lambda: watch.statistics().failures >= 5)
        (line,) = warnings(caplog)
        assert "404 page not found: install its CustomResourceDefinition" in line
        await define(kube, plural)
        await until(lambda: Synced() in heard)
        await kube.client.create(wonders, _wonder(plural), namespace=kube.namespace)
        await until(lambda: len(heard) > 1)


DEFINITIONS = Resource(
    Record, group="apiextensions.k8s.io", version="v1", plural="customresourcedefinitions", namespaced=False
)


async def define(kube: Kube, plural: str) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": plural, "kind": plural.capitalize()}
    spec = {"group": "sunk.test", "scope": "Namespaced", "names": names, "versions": [version]}
    await kube.client.create(DEFINITIONS, {"metadata": {"name": f"{plural}.sunk.test"}, "spec": spec})


def _wonder(plural: str, **body: Any) -> dict[str, Any]:
    return {"apiVersion": "sunk.test/v1", "kind": plural.capitalize(), "metadata": {"name": "w"}} | body


class Odd(Record, frozen=True, gc=False):
    data: dict[str, int]


async def test_an_object_of_the_wrong_shape_is_counted_each_time_and_said_once(
    kube: Kube, caplog: pytest.LogCaptureFixture
) -> None:
    odd = Resource(Odd, version="v1", plural="configmaps")
    scope = Scope(namespace=kube.namespace, fields="metadata.name=odd")
    await kube.client.create(CONFIG_MAPS, {"metadata": {"name": "odd"}, "data": {"a": "x"}}, namespace=kube.namespace)
    async with watching(kube.client, odd, scope) as (watch, heard):
        await until(lambda: Synced() in heard)
        for value in "yz":
            await kube.client.patch(CONFIG_MAPS, "odd", Merge({"data": {"a": value}}), namespace=kube.namespace)
        await until(lambda: watch.statistics().skipped == 3)
    (line,) = warnings(caplog)
    assert f"skipped {kube.namespace}/odd" in line
    assert "Expected `int`, got `str` - at `$.data" in line


# Requests that get lost


@asynccontextmanager
async def wired(kube: Kube, **traits: Any) -> AsyncIterator[tuple[Cable, Client]]:
    cable = Cable()
    async with cable.laid(access.from_kubeconfig(kube.kubeconfig)) as through, Client(through, **traits) as client:
        yield cable, client


async def maps(kube: Kube) -> list[str]:
    listing = await kube.client.list(CONFIG_MAPS, Scope(namespace=kube.namespace))
    return [one.metadata.name for one in listing.items if one.metadata.name.startswith("m-")]


async def test_a_read_is_repeated_until_the_server_is_back(kube: Kube) -> None:
    async with wired(kube, retry=Retry()) as (cable, client):
        cable.cut()
        asyncio.get_running_loop().call_later(0.5, cable.mend)
        await client.list(NODES)


async def test_a_create_that_never_left_is_repeated(kube: Kube) -> None:
    async with wired(kube, retry=Retry()) as (cable, client):
        cable.cut()
        asyncio.get_running_loop().call_later(0.5, cable.mend)
        await client.create(CONFIG_MAPS, {"metadata": {"name": "m-1"}}, namespace=kube.namespace)
    assert await maps(kube) == ["m-1"]


async def test_a_create_whose_answer_was_lost_is_not_done_twice(kube: Kube) -> None:
    async with wired(kube, retry=Retry()) as (cable, client):
        await client.list(NODES)  # so that a connection is open
        cable.back.clear()

        async def cut() -> None:
            while not await maps(kube):  # it has been carried out
                await asyncio.sleep(0.05)
            cable.cut()

        cutting = asyncio.create_task(cut(), name="cut")
        with pytest.raises(Unreachable) as lost:
            await client.create(CONFIG_MAPS, {"metadata": {"generateName": "m-"}}, namespace=kube.namespace)
        await cutting
        assert lost.value.sent
    assert len(await maps(kube)) == 1


async def test_a_patch_of_a_known_version_whose_answer_was_lost_ends_in_a_conflict_at_worst(kube: Kube) -> None:
    made = await kube.client.create(CONFIG_MAPS, {"metadata": {"name": "m-1"}}, namespace=kube.namespace)
    patch = Merge({"metadata": {"resourceVersion": made.metadata.resource_version}, "data": {"a": "b"}})

    async def back() -> None:
        while not (await kube.client.get(CONFIG_MAPS, "m-1", namespace=kube.namespace)).data:
            await asyncio.sleep(0.05)
        cable.cut()
        cable.mend()

    async with wired(kube, retry=Retry()) as (cable, client):
        await client.list(NODES)
        cable.back.clear()
        losing = asyncio.create_task(back(), name="lose the answer")
        with pytest.raises(Exception, match="409 Conflict"):
            await client.patch(CONFIG_MAPS, "m-1", patch, namespace=kube.namespace)
        await losing
    assert (await kube.client.get(CONFIG_MAPS, "m-1", namespace=kube.namespace)).data == {"a": "b"}


async def test_requests_are_held_up_by_the_rate_limit_and_seen_by_the_observer(kube: Kube) -> None:
    seen: list[Exchange] = []
    limit = Bucket(50, burst=1)
    async with Client(access.from_kubeconfig(kube.kubeconfig), limit=limit, observe=seen.append) as client:
        began = asyncio.get_running_loop().time()
        await asyncio.gather(*(client.list(NODES) for _ in range(20)))
        assert asyncio.get_running_loop().time() - began > 19 / 50 * 0.95
        with pytest.raises(Exception, match="404"):
            await client.get(CONFIG_MAPS, "none", namespace=kube.namespace)
    assert [(one.verb, one.resource, one.code) for one in seen[:-1]] == [("list", "nodes", 200)] * 20
    assert (seen[-1].verb, seen[-1].resource, seen[-1].code) == ("get", "configmaps", 404)
    assert limit.statistics().waited > 0


# Clocks


async def test_a_wall_clock_that_jumps_changes_nothing_for_the_leader(
    kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    jumps = 0

    def stamp() -> str:
        nonlocal jumps
        jumps += 1
        moment = datetime.now(UTC) + timedelta(days=400 * (-1) ** jumps)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    monkeypatch.setattr(lease, "_stamp", stamp)
    # A jump is longer than any term, so this one may outlast a machine on which everything stands still for seconds.
    timing = LeaseTiming(duration=20, margin=2, interval=0.2)
    leader, rival = (LeaderElection(kube.client, Key(kube.namespace, "l"), timing=timing) for _ in range(2))

    async def lead() -> bool:
        async with rival.held() as term:
            return term.holds()

    async with leader.held() as term:
        waiting = asyncio.create_task(lead(), name="rival")
        await until(lambda: jumps >= 3)
        assert term.holds()
        assert not waiting.done()
    async with asyncio.timeout(PATIENCE):
        assert await waiting
