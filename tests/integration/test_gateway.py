"""Something between us and the API server answers in its place: 200, and a page for people. Nothing of it is believed."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.conftest import Kube
from tests.gateway import PAGE, Gateway

from sunk.kube.api.client import Client, Deletion, Preconditions, Scope
from sunk.kube.api.patch import Apply, Merge
from sunk.kube.api.retry import ONCE, Retry
from sunk.kube.auth import access
from sunk.kube.cache.collection import Collection
from sunk.kube.cache.watch import WatchPace
from sunk.kube.core import CONFIG_MAPS
from sunk.kube.errors import ApiError, NotFound, Unreachable
from sunk.kube.resource import Key
from sunk.kube.tasks import running

HASTY = WatchPace(first_delay=0.02, longest_delay=0.05, refused_delay=0.1)
PATIENCE = 60.0


@asynccontextmanager
async def through(kube: Kube, *, retry: Retry = ONCE) -> AsyncIterator[tuple[Gateway, Client]]:
    gateway = Gateway()
    async with gateway.opened(access.from_kubeconfig(kube.kubeconfig)) as way, Client(way, retry=retry) as client:
        yield gateway, client


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0.02)


WAYS: dict[str, Callable[[Client, str], Awaitable[object]]] = {
    "get": lambda client, at: client.get(CONFIG_MAPS, "a", namespace=at),
    "list": lambda client, at: client.list(CONFIG_MAPS, Scope(namespace=at)),
    "create": lambda client, at: client.create(CONFIG_MAPS, {"metadata": {"name": "b"}}, namespace=at),
    "replace": lambda client, at: client.replace(CONFIG_MAPS, "a", {"metadata": {"name": "a"}}, namespace=at),
    "merge": lambda client, at: client.patch(CONFIG_MAPS, "a", Merge({"data": {"x": "y"}}), namespace=at),
    "apply": lambda client, at: client.patch(CONFIG_MAPS, "a", Apply({"data": {}}, manager="me"), namespace=at),
    "delete": lambda client, at: client.delete(CONFIG_MAPS, "a", namespace=at),
    "post": lambda client, at: client.post(f"/api/v1/namespaces/{at}/pods/a/eviction", {"metadata": {"name": "a"}}),
}


@pytest.mark.parametrize("media", ["text/html", "application/json"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_page_in_place_of_an_answer_is_no_answer(kube: Kube, way: str, media: str) -> None:
    await kube.client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, namespace=kube.namespace)
    async with through(kube) as (gateway, client):
        gateway.page, gateway.media = PAGE, media
        with pytest.raises(Unreachable, match=r"other than the API server.*Please sign in") as lost:
            await WAYS[way](client, kube.namespace)
    assert lost.value.sent, "whether a write took place is unknown"


@pytest.mark.parametrize(
    "answer", ["", "{}", '{"metadata": {}}', '{"items": []}', '{"kind":"List","metadata":{"resource']
)
async def test_what_is_no_list_is_not_taken_for_an_empty_one(kube: Kube, answer: str) -> None:
    async with through(kube) as (gateway, client):
        gateway.page, gateway.media = answer or " ", "application/json"
        with pytest.raises(Unreachable):
            await client.list(CONFIG_MAPS, Scope(namespace=kube.namespace))


async def test_a_page_that_says_not_found_does_not_mean_that_an_object_is_gone(kube: Kube) -> None:
    async with through(kube) as (gateway, client):
        gateway.page, gateway.status = PAGE, 404
        with pytest.raises(ApiError, match="404") as refused:
            await client.get(CONFIG_MAPS, "a", namespace=kube.namespace)
    assert not isinstance(refused.value, NotFound)


async def test_a_read_is_repeated_until_the_server_itself_answers(kube: Kube) -> None:
    await kube.client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, namespace=kube.namespace)
    async with through(kube, retry=Retry(within=PATIENCE, first_delay=0.01)) as (gateway, client):
        gateway.page = PAGE
        reading = asyncio.create_task(client.get(CONFIG_MAPS, "a", namespace=kube.namespace))
        await eventually(lambda: gateway.pages > 1)
        gateway.page = ""
        assert (await reading).metadata.name == "a"


async def test_a_collection_keeps_what_it_knows_and_goes_on(kube: Kube, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    await kube.client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, namespace=kube.namespace)
    key = Key(kube.namespace, "a")
    async with through(kube) as (gateway, client):
        maps = Collection(client, CONFIG_MAPS, Scope(namespace=kube.namespace), pace=HASTY)
        async with running({"maps": maps.run()}):
            await maps.store.complete()
            gateway.page = PAGE
            await kube.client.patch(CONFIG_MAPS, "a", Merge({"data": {"x": "y"}}), namespace=kube.namespace)
            await eventually(lambda: gateway.pages > 3)
            assert key in maps.store
            for read in (maps.confirm(key), maps.catch_up()):
                with pytest.raises(Exception, match="other than the API server"):
                    await read
            gateway.page = ""
            await eventually(lambda: bool((found := maps.store.get(key)) and found.data))
            assert key in maps.store
    assert any("other than the API server" in line for line in caplog.messages)


async def test_a_collection_that_begins_with_pages_is_not_taken_for_read(kube: Kube) -> None:
    await kube.client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, namespace=kube.namespace)
    async with through(kube) as (gateway, client):
        gateway.page = PAGE
        maps = Collection(client, CONFIG_MAPS, Scope(namespace=kube.namespace), pace=HASTY)
        async with running({"maps": maps.run()}):
            await eventually(lambda: gateway.pages > 3)
            assert not maps.store.synced
            gateway.page = ""
            await asyncio.wait_for(maps.store.complete(), PATIENCE)
            assert Key(kube.namespace, "a") in maps.store


async def test_a_write_whose_answer_was_a_page_is_in_doubt_until_it_is_read(kube: Kube) -> None:
    made = await kube.client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, namespace=kube.namespace)
    async with through(kube) as (gateway, client):
        maps = Collection(client, CONFIG_MAPS, Scope(namespace=kube.namespace), pace=HASTY)
        async with running({"maps": maps.run()}):
            await maps.store.complete()
            gateway.page, gateway.also_does = PAGE, True
            with pytest.raises(Unreachable):
                await maps.delete(made.key, Deletion(preconditions=Preconditions(uid=made.metadata.uid)))
            assert maps.store.doubts == (made.key,)
            await asyncio.sleep(1.2)
            assert maps.store.doubts == (made.key,), "a page settles nothing"
            gateway.page = ""
            await asyncio.wait_for(maps.store.certain(), PATIENCE)
            assert made.key not in maps.store
