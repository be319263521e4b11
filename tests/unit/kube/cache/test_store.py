"""A store is never older than what it has shown, forgets nothing, and ends equal to the server."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import ClassVar

import pytest
from hypothesis import given, settings, strategies as st

from sunk.kube.cache.store import MOST_TOMBSTONES, TOMBSTONE_LIFE, Rewound, Stale, Store
from sunk.kube.cache.view import Bookmark, Changed, Deleted, Event, Synced, View
from sunk.kube.resource import Key, Metadata, Record

pytestmark = pytest.mark.looptime

A = Key("", "a")


def record(name: str, version: int, *, uid: str = "1", **labels: str) -> Record:
    return Record(metadata=Metadata(name=name, uid=uid, resource_version=str(version), labels=labels))


def by_label(one: Record) -> Iterator[str]:
    yield from one.metadata.labels.values()


def synced(version: int, *records: Record) -> Store[Record]:
    store = Store[Record]("things", indexes={"label": by_label})
    for one in records:
        store.take(Changed(one), version="")
    store.take(Synced(), version=str(version))
    return store


def version_of(store: Store[Record], key: Key = A) -> str | None:
    held = store.get(key)
    return held.metadata.resource_version if held else None


# Indexes and subscribers


async def test_an_index_follows_its_records() -> None:
    store = synced(9, record("a", 1, node="x"), record("b", 2, node="x"), record("c", 3))
    assert [one.metadata.name for one in store.by("label", "x")] == ["a", "b"]
    store.take(Changed(record("a", 10, node="y", zone="z")), version="10")
    assert [[one.key.name for one in store.by("label", value)] for value in "xyz"] == [["b"], ["a"], ["a"]]
    store.take(Deleted(record("b", 11, node="x")), version="11")
    assert store.by("label", "x") == ()


async def test_what_an_index_gave_does_not_change_afterwards() -> None:
    store = synced(9, record("a", 1, node="x"))
    found = store.by("label", "x")
    store.take(Deleted(record("a", 10, node="x")), version="10")
    assert len(found) == 1
    assert len(store) == 0
    assert A not in store


async def test_a_subscriber_hears_before_and_after_until_it_leaves() -> None:
    store, heard = synced(9, record("a", 1)), list[tuple[str | None, str | None]]()

    def listen(_: Key, before: Record | None, after: Record | None) -> None:
        heard.append(
            (before.metadata.resource_version if before else None, after.metadata.resource_version if after else None)
        )

    leave = store.subscribe(listen)
    store.take(Changed(record("a", 10)), version="10")
    store.take(Deleted(record("a", 11)), version="11")
    leave()
    store.take(Changed(record("a", 12, uid="2")), version="12")
    assert heard == [("1", "10"), ("10", None)]


async def test_events_that_came_together_are_heard_one_by_one_and_none_of_them_if_history_went_back() -> None:
    store, heard = synced(9, record("a", 1)), list[tuple[str, str | None]]()
    store.subscribe(lambda key, _, after: heard.append((key.name, after.metadata.resource_version if after else None)))
    store.take(Changed(record("a", 10)), Changed(record("b", 11)), Deleted(record("a", 12)), version="12")
    assert heard == [("a", "10"), ("b", "11"), ("a", None)]
    assert store.version == 12
    with pytest.raises(Rewound):
        store.take(Deleted(record("b", 5)), Changed(record("c", 6)), version="6")
    assert len(heard) == 3


async def test_a_new_list_that_says_the_same_is_no_news() -> None:
    store, heard = synced(9, record("a", 1)), list[Key]()
    store.subscribe(lambda key, _before, _after: heard.append(key))
    store.take(Changed(record("a", 1)), version="")
    store.take(Synced(), version="20")
    assert heard == []


# Freshness


async def test_a_store_that_was_never_read_is_not_fresh() -> None:
    store = Store[Record]("things")
    store.take(Changed(record("a", 1)), version="")
    with pytest.raises(Stale, match="not read yet"):
        store.require_fresh(within=1e9)


async def test_a_silent_watch_makes_a_store_stale_and_a_bookmark_makes_it_fresh() -> None:
    store = synced(9)
    await asyncio.sleep(61)
    store.require_fresh(within=62)
    with pytest.raises(Stale, match=r"last update 61 s ago \(limit 60 s\)"):
        store.require_fresh(within=60)
    store.take(Bookmark(), version="15")
    store.require_fresh(within=1)
    assert store.version == 15


async def test_a_list_that_is_still_read_makes_nothing_fresh() -> None:
    store = synced(9)
    await asyncio.sleep(100)
    store.take(Changed(record("a", 20)), version="")
    assert store.age == 100
    assert store.version == 9


async def test_a_wait_ends_when_it_holds_and_one_that_was_given_up_is_forgotten() -> None:
    store = synced(9)
    waiting = asyncio.create_task(store.until(lambda: store.version >= 12))
    given_up = asyncio.create_task(store.until(lambda: store.version >= 11))
    await asyncio.sleep(1)
    given_up.cancel()
    store.take(Changed(record("a", 11)), version="11")
    await asyncio.sleep(1)
    assert not waiting.done()
    store.take(Bookmark(), version="12")
    await waiting


async def test_late_events_do_not_bring_back_what_a_survey_has_not_found() -> None:
    store = synced(9)
    store.surveyed(20)
    store.require_fresh(within=0)
    store.take(Changed(record("a", 15)), version="15")
    assert A not in store
    store.take(Changed(record("a", 21)), version="21")
    assert A in store


async def test_a_list_older_than_what_was_known_means_that_history_went_back_and_deletes_nothing() -> None:
    store = synced(100, record("a", 5))
    with pytest.raises(Rewound, match="version 50 came after 100"):
        store.take(Deleted(record("a", 5)), version="50")
    with pytest.raises(Rewound):
        store.take(Synced(), version="50")
    assert A in store


# Our own writes


async def test_our_own_write_is_seen_at_once_and_an_older_event_does_not_take_it_back() -> None:
    store = synced(9, record("a", 5))
    store.answered(record("a", 12))
    store.take(Changed(record("a", 11)), version="11")
    store.take(Deleted(record("a", 5)), version="11")  # as computed from an old list
    assert version_of(store) == "12"


async def test_what_we_deleted_does_not_come_back_but_its_successor_does() -> None:
    store = synced(9, record("a", 5))
    store.deleted(A, uid="1")
    store.take(Changed(record("a", 11)), version="11")
    assert A not in store
    store.take(Deleted(record("a", 12)), version="12")
    store.take(Changed(record("a", 13, uid="2")), version="13")
    assert version_of(store) == "13"


async def test_a_successor_known_already_is_not_deleted_by_the_late_answer_about_its_forerunner() -> None:
    store = synced(9, record("a", 12, uid="2"))
    store.deleted(A, uid="1")
    assert version_of(store) == "12"


async def test_an_answer_that_comes_after_the_deletion_is_too_late() -> None:
    store = synced(9, record("a", 5))
    store.take(Deleted(record("a", 12)), version="12")
    store.answered(record("a", 11))
    assert A not in store


async def test_a_creation_that_the_watch_leaves_out_is_gone_when_the_watch_is_past_it() -> None:
    """It was deleted between two lists, or matches no selector: no event will ever speak of it."""
    store = synced(9)
    store.answered(record("a", 12))
    store.take(Bookmark(), version="11")
    assert A in store
    store.take(Bookmark(), version="12")
    assert A not in store


async def test_an_absence_read_at_a_version_outlasts_older_events_only() -> None:
    store = synced(9, record("a", 5))
    store.absent(A, version=20)
    store.take(Changed(record("a", 15)), version="15")
    assert A not in store
    store.take(Changed(record("a", 21, uid="2")), version="21")
    store.absent(A, version=20)
    assert version_of(store) == "21"


async def test_a_doubt_is_heard_of_until_the_last_is_settled() -> None:
    store, other = synced(9), Key("", "b")
    hearing = asyncio.create_task(store.uncertain(), name="hearing")
    await asyncio.sleep(1)
    assert not hearing.done()
    for key in (A, other):
        store.doubt(key)
    await hearing
    store.settle(A, store.doubt_of(A))
    await store.uncertain()
    store.settle(other, store.doubt_of(other))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await store.uncertain()


async def test_a_doubt_is_settled_only_by_a_read_begun_after_it() -> None:
    store = synced(9)
    early = store.doubt_of(A)
    store.doubt(A)
    store.settle(A, early)
    assert store.doubts == (A,)
    waiting = asyncio.create_task(store.certain())
    await asyncio.sleep(1)
    first = store.doubt_of(A)
    store.doubt(A)
    store.settle(A, first)
    assert not waiting.done()
    store.settle(A, store.doubt_of(A))
    await waiting


async def test_tombstones_are_bounded_in_number_and_in_time() -> None:
    store = synced(9)
    for number in range(MOST_TOMBSTONES + 5):
        store.deleted(Key("", str(number)), uid=str(number))
    assert len(store._tombstones) == MOST_TOMBSTONES  # noqa: SLF001 - nothing else shows it
    await asyncio.sleep(TOMBSTONE_LIFE + 1)
    store.take(Bookmark(), version="20")
    assert len(store._tombstones) == 0  # noqa: SLF001


# Against a model


class Server:
    """The truth and its history. Objects are in the watched selection or outside of it."""

    def __init__(self) -> None:
        self.version = 10
        self.objects: dict[str, Record] = {}
        self.history: dict[str, list[tuple[int, Record | None]]] = {}
        self.log: list[Event[Record]] = []

    def write(self, name: str, *, inside: bool) -> Record:
        self.version += 1
        before = self.objects.get(name)
        uid = before.metadata.uid if before else f"uid-{self.version}"
        after = record(name, self.version, uid=uid, place="inside" if inside else "outside")
        self.objects[name] = after
        self._say(name, before, after)
        return after

    def delete(self, name: str) -> Record | None:
        before = self.objects.pop(name, None)
        if before:
            self.version += 1
            self._say(name, before, None)
        return before

    def _say(self, name: str, before: Record | None, after: Record | None) -> None:
        seen = after if after and inside(after) else None
        self.history.setdefault(name, []).append((self.version, seen))
        if seen:
            self.log.append(Changed(seen))
        elif before and inside(before):
            # As the server does it: the last picture, with the version at which it left the selection.
            self.log.append(Deleted(record(name, self.version, uid=before.metadata.uid, place="inside")))

    @property
    def selection(self) -> dict[str, Record]:
        return {name: one for name, one in self.objects.items() if inside(one)}

    def was_absent_since(self, name: str, version: int) -> bool:
        """Whether the selection has ever lacked the name at this version or a later one."""
        moments = self.history.get(name, [])
        return any(seen is None and moment >= version for moment, seen in moments) or not moments


def inside(one: Record) -> bool:
    return one.metadata.labels.get("place") == "inside"


class Wire:
    """A watch that lags behind, reads lists with pauses, and loses its place; and answers that come when they like."""

    def __init__(self) -> None:
        self.server = Server()
        self.store = Store[Record]("things", indexes={"label": by_label})
        self.view = View[Record]()
        self.heard = 0
        self.list: list[Record] | None = None
        self.list_version = 0
        self.answers: list[Record | tuple[str, str] | tuple[str, int] | tuple[dict[Key, Record], int]] = []
        self.told: dict[Key, Record] = {}
        self.highest: dict[Key, int] = {}
        self.store.subscribe(self.listen)

    def listen(self, key: Key, before: Record | None, after: Record | None) -> None:
        assert self.told.pop(key, None) == before
        if after is None:
            assert before is not None
            assert self.server.was_absent_since(key.name, int(before.metadata.resource_version)), "a false deletion"
            return
        self.told[key] = after
        assert int(after.metadata.resource_version) > self.highest.get(key, 0), "an older picture"
        self.highest[key] = int(after.metadata.resource_version)

    def relist(self) -> None:
        self.list, self.list_version = list(self.server.selection.values()), self.server.version
        self.view.begin()

    def hear(self) -> None:
        """Say the next thing there is to say: of a list, or of what came after it."""
        if self.list is None and not self.store.synced:
            self.relist()
        elif self.list:
            self._say(self.view.change(self.list.pop()), "")
        elif self.list is not None:
            self.list = None
            self._say(self.view.end(), str(self.list_version))
            self.heard = sum(version_in(event) <= self.list_version for event in self.server.log)
        elif self.heard < len(self.server.log):
            event = self.server.log[self.heard]
            self.heard += 1
            said = self.view.change(event.object) if isinstance(event, Changed) else self.view.delete(lost(event))
            self._say(said, str(version_in(event)))

    def _say(self, events: Iterable[Event[Record]], version: str) -> None:
        for event in events:
            self.store.take(event, version=version)

    def bookmark(self) -> None:
        if self.list is None and self.store.synced:
            rest = self.server.log[self.heard :]
            self.store.take(Bookmark(), version=str(version_in(rest[0]) - 1 if rest else self.server.version))

    def write(self, name: str, place: str, *, ours: str) -> None:
        after = self.server.write(name, inside=place == "in")
        if ours != "no":
            self.answers.append(after)
        self._maybe(ours)

    def delete(self, name: str, *, ours: str) -> None:
        before = self.server.delete(name)
        if before and ours != "no":
            self.answers.append((name, before.metadata.uid))
        self._maybe(ours)

    def read(self, name: str, *, ours: str) -> None:
        self.answers.append(self.server.selection.get(name) or (name, self.server.version))
        self._maybe(ours)

    def survey(self, *, ours: str) -> None:
        self.answers.append(({one.key: one for one in self.server.selection.values()}, self.server.version))
        self._maybe(ours)

    def compare(self, found: dict[Key, Record], version: int) -> None:
        """As a collection does it when it catches up, though that takes its time in between."""
        for one in found.values():
            self.store.answered(one)
        for one in self.store.all():
            if one.key not in found:
                self.store.absent(one.key, version=version)
        self.store.surveyed(version)

    def _maybe(self, ours: str) -> None:
        if ours == "now":
            self.answer(-1)

    def answer(self, which: int = 0) -> None:
        if self.answers:
            match self.answers.pop(which):
                case (str(name), str(uid)):
                    self.store.deleted(Key("", name), uid=uid)
                case (str(name), int(version)):
                    self.store.absent(Key("", name), version=version)
                case (dict(found), int(version)):
                    self.compare(found, version)
                case Record() as one:
                    self.store.answered(one)

    def finish(self) -> None:
        while self.answers:
            self.answer()
        while not self.store.synced or self.list is not None or self.heard < len(self.server.log):
            self.hear()
        self.bookmark()


def version_in(event: Event[Record]) -> int:
    assert isinstance(event, Changed | Deleted)
    return int(event.object.metadata.resource_version)


def lost(event: Event[Record]) -> Record:
    assert isinstance(event, Deleted)
    return event.object


class Steps:
    names: ClassVar = st.sampled_from("ab")
    ours: ClassVar = st.sampled_from(["no", "now", "late"])
    any: ClassVar = st.one_of(
        st.tuples(st.just("write"), names, st.sampled_from(["in", "out"]), ours),
        st.tuples(st.just("delete"), names, ours),
        st.tuples(st.just("read"), names, ours),
        st.tuples(st.just("survey"), ours),
        st.sampled_from([("hear",), ("hear",), ("hear",), ("bookmark",), ("relist",), ("answer",)]),
    )


@given(steps=st.lists(Steps.any, max_size=60))
@settings(max_examples=300)
async def test_whatever_comes_when_a_store_never_goes_back_and_ends_equal_to_the_server(
    steps: list[tuple[str, ...]],
) -> None:
    wire = Wire()
    for step in steps:
        match step:
            case ("write", name, place, ours):
                wire.write(name, place, ours=ours)
            case ("delete", name, ours):
                wire.delete(name, ours=ours)
            case ("read", name, ours):
                wire.read(name, ours=ours)
            case ("survey", ours):
                wire.survey(ours=ours)
            case (name,):
                getattr(wire, name)()
    wire.finish()
    assert {one.metadata.name: one for one in wire.store.all()} == wire.server.selection
    assert wire.told == {one.key: one for one in wire.store.all()}
    assert {one.metadata.name: one for one in wire.store.by("label", "inside")} == wire.server.selection
    assert wire.store.by("label", "outside") == ()
