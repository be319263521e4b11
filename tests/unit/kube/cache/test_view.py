"""Whoever applies what a watch says must end with what the server has, whatever was missed in between."""

from collections.abc import Iterable

from hypothesis import given, strategies as st

from sunk.kube.cache.view import Changed, Deleted, Event, Synced, View
from sunk.kube.resource import Key, Metadata, Record

State = dict[str, str]  # name → uid

STATES = st.lists(st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["1", "2", "3"])), min_size=1, max_size=6)


def record(name: str, uid: str = "1") -> Record:
    return Record(metadata=Metadata(name=name, uid=uid))


def apply(store: State, events: Iterable[Event[Record]]) -> None:
    for event in events:
        match event:
            case Changed(one):
                assert store.get(one.metadata.name, one.metadata.uid) == one.metadata.uid, (
                    "a new uid without a deletion"
                )
                store[one.metadata.name] = one.metadata.uid
            case Deleted(one):
                del store[one.metadata.name]


def relist(view: View[Record], store: State, state: State, *, up_to: int | None = None) -> None:
    view.begin()
    for name, uid in list(state.items())[:up_to]:
        apply(store, view.change(record(name, uid)))
    if up_to is None:
        apply(store, view.end())


@given(states=STATES, broken=st.integers(min_value=0, max_value=6))
def test_after_every_list_the_listener_has_what_the_server_has(states: list[State], broken: int) -> None:
    view, store = View[Record](), State()
    for state in states:
        relist(view, store, state, up_to=broken)  # a list that breaks off must do no harm
        relist(view, store, state)
        assert store == state


def test_what_a_list_does_not_mention_is_said_to_be_deleted_before_the_list_ends() -> None:
    view = View[Record]()
    for name in "ab":
        list(view.change(record(name)))
    view.begin()
    list(view.change(record("b")))
    assert list(view.end()) == [Deleted(record("a")), Synced()]


def test_a_deletion_is_said_once() -> None:
    view = View[Record]()
    list(view.change(record("a")))
    assert list(view.delete(record("a"))) == [Deleted(record("a"))]
    assert list(view.delete(record("a"))) == []


def test_an_object_that_cannot_be_read_is_not_gone() -> None:
    view = View[Record]()
    list(view.change(record("a")))
    view.begin()
    view.keep(Key("", "a"))
    assert list(view.end()) == [Synced()]
    assert list(view.drop(Key("", "a"))) == [Deleted(record("a"))]
