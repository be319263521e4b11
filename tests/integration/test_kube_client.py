"""The client and the watch against a real API server, over good and bad connections."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest
from msgspec import Struct
from msgspec.structs import replace
from tests.cable import Cable
from tests.conftest import Kube

from sunk.kube.api.client import Client, Deletion, Preconditions, Scope
from sunk.kube.api.patch import Apply, Json, Merge, Strategic
from sunk.kube.auth import access
from sunk.kube.auth.credentials import Token
from sunk.kube.cache.view import Changed, Deleted, Event, Synced
from sunk.kube.cache.watch import Watch, WatchPace, watch
from sunk.kube.core import CONFIG_MAPS, NODES, PODS, ConfigMap, Pod
from sunk.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Invalid,
    NotFound,
    Unauthorized,
    Unreachable,
    Unreadable,
)
from sunk.kube.resource import Key, Record, Resource

PATIENCE = 60.0
HASTY = WatchPace(first_delay=0.02, longest_delay=0.1)


class Maps:
    """ConfigMaps of one namespace, in few words."""

    def __init__(self, kube: Kube) -> None:
        self.client = kube.client
        self.namespace = kube.namespace
        # Kubernetes puts one of its own into every namespace, which is nobody's business here.
        self.scope = Scope(namespace=kube.namespace, labels="test=yes")

    async def put(self, name: str, **data: str) -> ConfigMap:
        body = {"metadata": {"name": name, "labels": {"test": "yes"}}, "data": data}
        return await self.client.create(CONFIG_MAPS, body, namespace=self.namespace)

    async def change(self, name: str, **data: str) -> ConfigMap:
        return await self.client.patch(CONFIG_MAPS, name, Merge({"data": data}), namespace=self.namespace)

    async def delete(self, name: str, how: Deletion | None = None) -> None:
        await self.client.delete(CONFIG_MAPS, name, how or Deletion(), namespace=self.namespace)


@pytest.fixture
def maps(kube: Kube) -> Maps:
    return Maps(kube)


async def test_an_object_is_created_read_changed_and_deleted(maps: Maps) -> None:
    await maps.put("a", color="red")
    found = await maps.client.get(CONFIG_MAPS, "a", namespace=maps.namespace)
    assert found.data == {"color": "red"}
    metadata = {"name": "a", "resourceVersion": found.metadata.resource_version}
    body = {"metadata": metadata, "data": {"color": "blue"}}
    assert (await maps.client.replace(CONFIG_MAPS, "a", body, namespace=maps.namespace)).data == {"color": "blue"}
    await maps.delete("a")
    with pytest.raises(NotFound):
        await maps.client.get(CONFIG_MAPS, "a", namespace=maps.namespace)


async def test_the_same_name_twice_is_refused(maps: Maps) -> None:
    await maps.put("a")
    with pytest.raises(AlreadyExists):
        await maps.put("a")


async def test_a_replace_of_an_older_version_is_refused(maps: Maps) -> None:
    old = await maps.put("a")
    await maps.change("a", color="red")
    body = {"metadata": {"name": "a", "resourceVersion": old.metadata.resource_version}}
    with pytest.raises(Conflict):
        await maps.client.replace(CONFIG_MAPS, "a", body, namespace=maps.namespace)


async def test_an_invalid_object_says_which_fields_are_wrong(kube: Kube) -> None:
    with pytest.raises(Invalid) as refused:
        await kube.client.create(PODS, {"metadata": {"name": "p"}, "spec": {}}, namespace=kube.namespace)
    assert "spec.containers" in [cause.field for cause in refused.value.causes]


@pytest.mark.parametrize("precondition", ["uid", "resource_version"])
async def test_a_delete_decided_on_something_else_meets_nothing(maps: Maps, precondition: str) -> None:
    made = await maps.put("a")
    wrong = Preconditions(**{precondition: "1"})
    with pytest.raises(Conflict):
        await maps.delete("a", Deletion(preconditions=wrong))
    right = Preconditions(uid=made.metadata.uid, resource_version=made.metadata.resource_version)
    await maps.delete("a", Deletion(preconditions=right))


@pytest.mark.parametrize(("precondition", "refusal"), [("uid", Invalid), ("resourceVersion", Conflict)])
async def test_a_patch_decided_on_something_else_is_refused(
    maps: Maps, precondition: str, refusal: type[ApiError]
) -> None:
    await maps.put("a")
    patch = Merge({"metadata": {precondition: "1"}, "data": {"a": "b"}})
    with pytest.raises(refusal):
        await maps.client.patch(CONFIG_MAPS, "a", patch, namespace=maps.namespace)


async def test_a_json_patch_depends_on_what_it_tests(maps: Maps) -> None:
    await maps.put("a", color="red")
    test, change = ({"op": "test", "path": "/data/color"}, {"op": "replace", "path": "/data/color", "value": "blue"})
    patch = Json([test | {"value": "green"}, change])
    with pytest.raises(Invalid):
        await maps.client.patch(CONFIG_MAPS, "a", patch, namespace=maps.namespace)
    patch = Json([test | {"value": "red"}, change])
    assert (await maps.client.patch(CONFIG_MAPS, "a", patch, namespace=maps.namespace)).data == {"color": "blue"}


async def test_apply_takes_a_field_from_another_manager_only_by_force(maps: Maps) -> None:
    def wish(color: str, *, manager: str, force: bool = False) -> Apply:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"color": color}}
        return Apply(body, manager=manager, force=force)

    async def apply(patch: Apply) -> ConfigMap:
        return await maps.client.patch(CONFIG_MAPS, "a", patch, namespace=maps.namespace)

    await apply(wish("red", manager="one"))
    with pytest.raises(Conflict, match="one"):
        await apply(wish("blue", manager="two"))
    assert (await apply(wish("blue", manager="two", force=True))).data == {"color": "blue"}


async def test_a_strategic_patch_of_the_status_leaves_other_conditions(kube: Kube) -> None:
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await kube.client.create(PODS, body, namespace=kube.namespace)

    async def say(kind: str) -> Pod:
        patch = Strategic({"status": {"conditions": [{"type": kind, "status": "True"}]}})
        return await kube.client.patch(PODS, "p", patch, namespace=kube.namespace, subresource="status")

    await say("Warm")
    assert {one.type for one in (await say("Dry")).status.conditions} == {"Warm", "Dry"}


async def test_a_binding_is_posted_to_its_subresource(kube: Kube) -> None:
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await kube.client.create(PODS, body, namespace=kube.namespace)
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": kube.namespace}}
    await kube.client.post(PODS.path(kube.namespace, "p", subresource="binding"), binding)
    assert (await kube.client.get(PODS, "p", namespace=kube.namespace)).spec.node_name == kube.namespace


async def test_a_long_list_comes_in_pages_and_whole(maps: Maps) -> None:
    names = [f"m-{number:02}" for number in range(25)]
    for name in names:
        await maps.put(name)
    pages = [page async for page in maps.client.pages(CONFIG_MAPS, maps.scope, limit=10)]
    assert [len(page.items or ()) for page in pages] == [10, 10, 5]
    listing = await maps.client.list(CONFIG_MAPS, maps.scope)
    assert [one.metadata.name for one in listing.items] == names
    assert listing.resource_version


async def test_a_selection_is_deleted_at_once_but_never_everything(maps: Maps) -> None:
    for name in "abc":
        await maps.put(name)
    await maps.client.delete_all(CONFIG_MAPS, maps.scope)
    assert (await maps.client.list(CONFIG_MAPS, maps.scope)).items == ()
    with pytest.raises(ValueError, match="give labels or fields"):
        await maps.client.delete_all(CONFIG_MAPS, Scope(namespace=maps.namespace))


async def test_a_wrong_token_is_unauthorized(kube: Kube) -> None:
    wrong = replace(access.from_kubeconfig(kube.kubeconfig), credentials=Token("nonsense"))
    async with Client(wrong) as client:
        with pytest.raises(Unauthorized):
            await client.list(NODES)


async def test_an_untrusted_certificate_is_unreachable_and_names_the_remedy(kube: Kube) -> None:
    import ssl

    strict = replace(access.from_kubeconfig(kube.kubeconfig), tls=ssl.create_default_context())
    async with Client(strict) as client:
        with pytest.raises(Unreachable, match="set the CA"):
            await client.list(NODES)


async def test_nobody_at_the_address_is_unreachable() -> None:
    async with Client(access.Access(server="https://127.0.0.1:1", tls=None, credentials=Token("t"))) as client:
        with pytest.raises(Unreachable, match="check that the API server runs"):
            await client.list(NODES)


async def test_a_server_that_does_not_answer_in_time_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # takes connections, and that is all
        address = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        async with Client(access.Access(server=address, tls=None, credentials=Token("t")), timeout=0.2) as client:
            with pytest.raises(Unreachable, match="no answer in time"):
                await client.list(NODES)


async def test_a_resource_that_is_not_installed_is_not_found(kube: Kube) -> None:
    with pytest.raises(NotFound):
        await kube.client.list(Resource(Record, group="sunk.test", version="v1", plural="wonders"))


class Odd(Record, frozen=True, gc=False):
    """A ConfigMap whose data is expected to hold a number: most do not fit."""

    data: dict[str, int]


ODD = Resource(Odd, version="v1", plural="configmaps")


async def test_an_object_that_does_not_fit_its_record_is_unreadable(maps: Maps) -> None:
    await maps.put("a", color="red")
    with pytest.raises(Unreadable, match="does not match its type"):
        await maps.client.get(ODD, "a", namespace=maps.namespace)


# The watch


class Store(Struct):
    """What a consumer of a watch knows, and how often it was told that this is all."""

    known: dict[Key, ConfigMap]
    syncs: int = 0
    deletions: int = 0

    def take(self, event: Event[ConfigMap]) -> None:
        match event:
            case Changed(one):
                self.known[one.key] = one
            case Deleted(one):
                del self.known[one.key]
                self.deletions += 1
            case Synced():
                self.syncs += 1

    @property
    def versions(self) -> dict[str, str]:
        return {key.name: one.metadata.resource_version for key, one in self.known.items()}


async def until(events: AsyncIterator[Event[ConfigMap]], store: Store, *, name: str = "", syncs: int = 0) -> None:
    """Follow a watch until it has said a name and been in sync so often."""
    async with asyncio.timeout(PATIENCE):
        while store.syncs < syncs or (name and name not in store.versions):
            store.take(await anext(events))


async def equal(maps: Maps, store: Store) -> bool:
    listing = await maps.client.list(CONFIG_MAPS, maps.scope)
    return store.versions == {one.metadata.name: one.metadata.resource_version for one in listing.items}


async def test_a_watch_says_what_there_is_and_then_what_changes(maps: Maps) -> None:
    await maps.put("a")
    store = Store({})
    async with watch(maps.client, CONFIG_MAPS, maps.scope) as events:
        await until(events, store, syncs=1)
        assert list(store.versions) == ["a"]
        await maps.put("b")
        await maps.change("a", color="red")
        await maps.delete("a")
        await maps.put("end")
        await until(events, store, name="end")
        assert await equal(maps, store)
    assert store.deletions == 1


async def test_a_server_that_does_not_end_its_streamed_list_is_read_in_pages(maps: Maps) -> None:
    for name in "abc":
        await maps.put(name)
    store = Store({})
    async with watch(maps.client, CONFIG_MAPS, maps.scope, pace=WatchPace(listing=0.0)) as events:
        await until(events, store, syncs=1)
        await maps.put("end")
        await until(events, store, name="end")
        assert await equal(maps, store)


async def test_an_object_of_the_largest_size_passes(maps: Maps) -> None:
    store = Store({})
    async with watch(maps.client, CONFIG_MAPS, maps.scope) as events:
        await until(events, store, syncs=1)
        await maps.put("end", text="x" * 1_000_000)
        await until(events, store, name="end")
        assert len(store.known[Key(maps.namespace, "end")].data["text"]) == 1_000_000


async def test_a_stream_that_the_server_ends_is_resumed_without_a_new_list(maps: Maps) -> None:
    store = Store({})
    async with watch(maps.client, CONFIG_MAPS, maps.scope, pace=WatchPace(lifetime=1.0)) as events:
        await until(events, store, syncs=1)
        for name in ("a", "b", "end"):
            await asyncio.sleep(0.8)
            await maps.put(name)
        await until(events, store, name="end")
        assert await equal(maps, store)
    assert store.syncs == 1


async def test_an_object_that_does_not_fit_is_skipped_with_one_line(
    maps: Maps, caplog: pytest.LogCaptureFixture
) -> None:
    await maps.put("a", number="1")  # a string, as all data of a ConfigMap
    with caplog.at_level(logging.ERROR, logger="sunk.kube.cache.watch"):
        async with watch(maps.client, ODD, maps.scope) as events, asyncio.timeout(PATIENCE):
            async for event in events:
                if isinstance(event, Synced):
                    break
                raise AssertionError(f"said {event}")
    (line,) = caplog.messages
    assert f"skipped {maps.namespace}/a" in line


@asynccontextmanager
async def wired(kube: Kube) -> AsyncIterator[tuple[Cable, Client]]:
    cable = Cable()
    async with cable.laid(access.from_kubeconfig(kube.kubeconfig)) as through, Client(through) as client:
        yield cable, client


async def test_a_cut_connection_loses_nothing(kube: Kube, maps: Maps) -> None:
    for name in ("a", "b"):
        await maps.put(name)
    store = Store({})
    async with wired(kube) as (cable, client), watch(client, CONFIG_MAPS, maps.scope, pace=HASTY) as events:
        await until(events, store, syncs=1)
        cable.cut()
        await maps.delete("a")
        await maps.change("b", color="red")
        await maps.put("end")
        cable.mend()
        await until(events, store, name="end")
        assert await equal(maps, store)
    assert store.syncs == 1, "resumed where it stood"


async def test_after_a_new_list_the_deletions_missed_are_said_too(kube: Kube, maps: Maps) -> None:
    for name in ("a", "b", "c"):
        await maps.put(name)
    store = Store({})
    async with wired(kube) as (cable, client):
        watching = Watch(client, CONFIG_MAPS, maps.scope, pace=HASTY)
        async with aclosing(watching.events()) as events:
            await until(events, store, syncs=1)
            cable.cut()
            await maps.delete("a")
            await maps.delete("c")
            await maps.put("c", new="yes")  # another object under a known name
            watching.version = ""  # as if the server had forgotten it, which takes minutes in earnest
            cable.mend()
            await until(events, store, syncs=2)
        assert await equal(maps, store)
    assert store.deletions == 2
