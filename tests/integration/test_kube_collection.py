"""A collection on a real API server: what we write is there at once, and what is unknown is said to be unknown."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol

import pytest
from tests.cable import Cable

from sunk.kube.api.client import Client, Deletion, Preconditions, Scope
from sunk.kube.api.patch import Merge
from sunk.kube.auth import access
from sunk.kube.cache.collection import Collection
from sunk.kube.cache.store import Stale
from sunk.kube.core import CONFIG_MAPS, PODS, ConfigMap, Pod
from sunk.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound, Unreachable
from sunk.kube.resource import Key
from sunk.kube.tasks import running
from sunk.model import loopclock

PATIENCE = 60.0


class Kube(Protocol):
    @property
    def kubeconfig(self) -> Path: ...
    @property
    def namespace(self) -> str: ...
    @property
    def client(self) -> Client: ...


def body(name: str, *, place: str = "in", **data: str) -> dict[str, object]:
    return {"metadata": {"name": name, "labels": {"place": place}}, "data": data}


@asynccontextmanager
async def followed(kube: Kube, cable: Cable, *, patience: float = 30.0) -> AsyncIterator[Collection[ConfigMap]]:
    """ConfigMaps with a label, behind a cable. Only who wants no answer is to give requests less than the usual time."""
    scope = Scope(namespace=kube.namespace, labels="place=in")
    async with (
        cable.laid(access.from_kubeconfig(kube.kubeconfig)) as through,
        Client(through, timeout=patience) as client,
        asyncio.timeout(PATIENCE),
    ):
        collection = Collection(client, CONFIG_MAPS, scope)
        async with running({"follow": collection.run()}):
            await collection.store.complete()
            yield collection


async def test_what_we_write_is_there_at_once(kube: Kube) -> None:
    key, cable = Key(kube.namespace, "a"), Cable()
    async with followed(kube, cable) as maps:
        cable.back.clear()  # the watch hears nothing of all this; requests wait for their answers
        writing = asyncio.create_task(maps.create(key, body("a", color="red")))
        await asyncio.sleep(0.2)
        assert key not in maps.store
        cable.back.set()
        made = await writing
        assert maps.store.get(key) == made
        changed = await maps.patch(key, Merge({"data": {"color": "blue"}}))
        assert maps.store.get(key) == changed
        await maps.delete(key)
        assert key not in maps.store


async def create_pod(pods: Collection[Pod], key: Key, **spec: str) -> None:
    """Create a Pod, which is forbidden until the namespace, a moment old, has got its service account."""
    whole = {"containers": [{"name": "c", "image": "i"}], **spec}
    async with asyncio.timeout(PATIENCE):
        while key not in pods.store:
            with suppress(Forbidden):
                await pods.create(key, {"metadata": {"name": key.name}, "spec": whole})
            await asyncio.sleep(0.05)


async def test_a_pod_that_takes_its_time_to_end_is_known_to_be_on_its_way(kube: Kube) -> None:
    key, pods = Key(kube.namespace, "p"), Collection(kube.client, PODS, Scope(namespace=kube.namespace))
    async with running({"follow": pods.run()}):
        await pods.store.complete()
        await create_pod(pods, key, nodeName=kube.namespace)
        await pods.delete(key)
        ending = pods.store.get(key)
        assert ending is not None
        assert ending.metadata.deletion_timestamp
        await pods.delete(key, Deletion(grace_period_seconds=0))
        assert key not in pods.store


async def test_a_binding_is_seen_by_whoever_made_it(kube: Kube) -> None:
    key, pods = Key(kube.namespace, "p"), Collection(kube.client, PODS, Scope(namespace=kube.namespace))
    async with running({"follow": pods.run()}):
        await pods.store.complete()
        await create_pod(pods, key)
        target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": kube.namespace}}
        await pods.post(key, target, subresource="binding")
        bound = pods.store.get(key)
        assert bound is not None
        assert bound.spec.node_name == kube.namespace


async def cut_when_there(kube: Kube, cable: Cable, key: Key) -> None:
    """Cut the cable when a write has been carried out, of which nothing comes back."""
    while True:
        with suppress(NotFound):
            await kube.client.get(CONFIG_MAPS, key.name, namespace=key.namespace)
            cable.cut()
            return
        await asyncio.sleep(0.05)


async def test_a_write_whose_answer_is_lost_is_in_doubt_until_it_was_read(kube: Kube) -> None:
    key, cable = Key(kube.namespace, "a"), Cable()
    async with followed(kube, cable) as maps:
        await maps.confirm(key)  # so that there is an open connection on which the write gets through
        cable.back.clear()
        losing = asyncio.create_task(cut_when_there(kube, cable, key), name="lose the answer")
        with pytest.raises(Unreachable):
            await maps.create(key, body("a"))
        await losing
        assert maps.store.doubts == (key,)
        assert key not in maps.store
        cable.mend()
        await maps.store.certain()
        assert key in maps.store, "it had been carried out"


async def test_a_write_that_is_cancelled_on_its_way_is_in_doubt_too(kube: Kube) -> None:
    key, cable = Key(kube.namespace, "a"), Cable()
    async with followed(kube, cable) as maps:
        cable.out.clear()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(maps.create(key, body("a")), 0.3)
        assert maps.store.doubts == (key,)
        cable.cut()  # and what was on its way never arrives
        cable.mend()
        await maps.store.certain()
        assert key not in maps.store


@pytest.mark.parametrize("refused", [Conflict, AlreadyExists, NotFound])
async def test_a_refusal_that_shows_us_to_be_behind_is_followed_by_a_read(kube: Kube, refused: type[Exception]) -> None:
    key = Key(kube.namespace, "a")
    maps = Collection(kube.client, CONFIG_MAPS, Scope(namespace=kube.namespace))  # nobody follows it: it stays behind
    wrong = Merge({"metadata": {"resourceVersion": "1"}, "data": {"color": "blue"}})
    if refused is not NotFound:
        await kube.client.create(CONFIG_MAPS, body("a", color="red"), namespace=kube.namespace)
    with pytest.raises(refused):
        await (maps.create(key, body("a")) if refused is AlreadyExists else maps.patch(key, wrong))
    held = maps.store.get(key)
    assert (held.data["color"] if held else None) == (None if refused is NotFound else "red")
    assert maps.store.doubts == ()


async def test_what_we_move_out_of_the_selection_leaves_the_store(kube: Kube) -> None:
    cable = Cable()
    keys = [Key(kube.namespace, name) for name in ("moved", "never-in")]
    async with followed(kube, cable) as maps:
        await maps.create(keys[0], body("moved"))
        await maps.patch(keys[0], Merge({"metadata": {"labels": {"place": "out"}}}))
        await maps.create(keys[1], body("never-in", place="out"))
        await maps.catch_up()
        await maps.create(Key(kube.namespace, "end"), body("end"))
        assert await maps.confirm(keys[0]) is None
        assert await maps.confirm(keys[1]) is None
        assert [one.metadata.name for one in maps.store.all()] == ["end"]


async def test_a_delete_decided_on_a_forerunner_meets_nothing(kube: Kube) -> None:
    key, cable = Key(kube.namespace, "a"), Cable()
    async with followed(kube, cable) as maps:
        first = await maps.create(key, body("a"))
        await kube.client.delete(CONFIG_MAPS, "a", namespace=kube.namespace)
        second = await kube.client.create(CONFIG_MAPS, body("a"), namespace=kube.namespace)
        with pytest.raises(Conflict):
            await maps.delete(key, Deletion(preconditions=Preconditions(uid=first.metadata.uid)))
        assert maps.store.get(key) == second


async def test_a_quiet_store_is_proven_fresh_when_somebody_asks(kube: Kube) -> None:
    cable = Cable()
    async with followed(kube, cable) as maps:
        before, asked = maps.store.version, loopclock.now()
        await kube.client.create(CONFIG_MAPS, body("other", place="out"), namespace=kube.namespace)
        await maps.catch_up()
        assert maps.store.version > before
        maps.store.require_fresh(within=loopclock.now() - asked)


async def test_where_nothing_can_be_read_nothing_is_proven(kube: Kube) -> None:
    cable = Cable()
    async with followed(kube, cable, patience=1.5) as maps:
        cable.stall()
        with pytest.raises(Stale, match="freshness was not proven"):
            await maps.catch_up()


async def test_a_proof_shows_what_a_watch_that_hangs_has_missed(kube: Kube) -> None:
    hanging, other = Cable(), Cable()
    gone, come, unseen = (Key(kube.namespace, name) for name in ("gone", "come", "unseen"))
    async with followed(kube, hanging) as maps, followed(kube, other) as theirs:
        await theirs.create(gone, body("gone"))
        await maps.store.until(lambda: gone in maps.store)
        hanging.back.clear()
        await theirs.create(come, body("come"))
        await theirs.create(unseen, body("unseen"))
        for key in (gone, unseen):
            await theirs.delete(key)
        maps._client = theirs._client  # noqa: SLF001 - only requests to come; the watch keeps its connection
        await maps.catch_up()
        assert [one.key for one in maps.store.all()] == [come]
        heard = list[Key]()
        maps.store.subscribe(lambda key, _before, _after: heard.append(key))
        hanging.back.set()
        end = await theirs.create(Key(kube.namespace, "end"), body("end"))
        await maps.store.until(lambda: end.key in maps.store)
        assert heard == [end.key], "the watch had nothing new to say"
