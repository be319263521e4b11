"""Events as people see them, on a real API server."""

import asyncio
from typing import Any

import pytest
from msgspec import Struct, field, json
from tests.cable import Cable
from tests.conftest import Kube

from sunk.kube.api.client import Client, Scope
from sunk.kube.auth import access
from sunk.kube.control.events import EVENTS, LONGEST_NOTE, EventLimits, Recorder, Reference, about, fill
from sunk.kube.core import CONFIG_MAPS
from sunk.kube.resource import Record, Resource

PATIENCE = 60.0
PROMPT = EventLimits(calm=0.1, grace=PATIENCE)
PATIENT = EventLimits(grace=PATIENCE)
"""At the end of its block a recorder writes what is left, and here that is to be found then."""
REQUEST = 30.0
"""How long a client waits for an answer."""
WHO = "sunk.test/events"


class Series(Struct, rename="camel"):
    count: int
    last_observed_time: str


class Event(Record, frozen=True, gc=False, rename="camel"):
    reason: str = ""
    action: str = ""
    type: str = ""
    note: str = ""
    reporting_controller: str = ""
    reporting_instance: str = ""
    regarding: dict[str, Any] = field(default_factory=dict)
    series: Series | None = None


FULL = Resource(Event, group="events.k8s.io", version="v1", plural="events")


async def found(kube: Kube, *, namespace: str = "", name: str = "thing") -> list[Event]:
    listing = await kube.client.list(FULL, Scope(namespace=namespace or kube.namespace))
    return [event for event in listing.items if event.regarding.get("name") == name]


async def until_written(recorder: Recorder) -> None:
    async with asyncio.timeout(PATIENCE):
        while recorder.statistics().pending:
            await asyncio.sleep(0.02)


@pytest.fixture
def thing(kube: Kube) -> Reference:
    return Reference(kind="ConfigMap", name="thing", namespace=kube.namespace, uid="u")


async def test_an_event_says_who_did_what_to_which_object_and_why(kube: Kube) -> None:
    made = await kube.client.create(CONFIG_MAPS, {"metadata": {"name": "thing"}}, namespace=kube.namespace)
    async with Recorder(kube.client, reporter=WHO, instance="pod-7", restraint=PATIENT) as events:
        events.tell(about(made, kind="ConfigMap"), "Drained", "drained for {who}", action="Drain", who="alice")
    (event,) = await found(kube)
    assert (event.reason, event.action, event.type) == ("Drained", "Drain", "Normal")
    assert event.note == "drained for alice"
    assert (event.reporting_controller, event.reporting_instance) == (WHO, "pod-7")
    assert event.regarding["uid"] == made.metadata.uid
    assert event.series is None


async def test_the_same_said_again_is_one_event_with_a_count(kube: Kube, thing: Reference) -> None:
    seldom = EventLimits(calm=2.0, grace=PATIENCE)
    async with Recorder(kube.client, reporter=WHO, restraint=seldom) as events:
        for number in range(50):
            events.warn(thing, "Refused", "try {number} was refused", action="Drain", number=number)
            await asyncio.sleep(0.01)
        await until_written(events)
        events.warn(thing, "Refused", "try {number} was refused", action="Drain", number=50)
        await until_written(events)
        written = events.statistics().written
    (event,) = await found(kube)
    assert event.series is not None
    assert event.series.count == 51
    assert event.note == "try 0 was refused"
    assert written < 15, "written now and then, not every time"


async def test_other_reasons_notes_and_objects_are_other_events(kube: Kube, thing: Reference) -> None:
    other = Reference(kind="ConfigMap", name="other", namespace=kube.namespace)
    async with Recorder(kube.client, reporter=WHO, restraint=PATIENT) as events:
        events.tell(thing, "One", "a", action="Do")
        events.tell(thing, "Two", "a", action="Do")
        events.tell(thing, "Two", "b", action="Do")
        events.warn(thing, "Two", "b", action="Do")
        events.tell(other, "One", "a", action="Do")
    assert len(await found(kube)) == 4
    assert len(await found(kube, name="other")) == 1


async def test_after_a_while_the_same_is_a_new_event(kube: Kube, thing: Reference) -> None:
    async with Recorder(kube.client, reporter=WHO, restraint=EventLimits(window=0.2, grace=PATIENCE)) as events:
        events.tell(thing, "One", "a", action="Do")
        await asyncio.sleep(0.3)
        events.tell(thing, "One", "a", action="Do")
    assert len(await found(kube)) == 2


async def test_events_about_nodes_go_to_the_default_namespace(kube: Kube) -> None:
    node = Reference(kind="Node", name=f"node-{kube.namespace}")
    async with Recorder(kube.client, reporter=WHO, restraint=PATIENT) as events:
        events.warn(node, "Locked", "locked", action="Lock")
    assert len(await found(kube, namespace="default", name=node.name)) == 1


async def test_an_event_that_was_deleted_meanwhile_is_written_again(kube: Kube, thing: Reference) -> None:
    async with Recorder(kube.client, reporter=WHO, restraint=PROMPT) as events:
        events.tell(thing, "One", "a", action="Do")
        await until_written(events)
        await kube.client.delete_all(EVENTS, Scope(namespace=kube.namespace, fields="reason=One"))
        events.tell(thing, "One", "a", action="Do")
        await until_written(events)
    (event,) = await found(kube)
    assert event.series is not None
    assert event.series.count == 2


async def test_one_object_cannot_say_too_much_and_nor_can_all(kube: Kube, thing: Reference) -> None:
    restraint = EventLimits(object_burst=3, remembered=10, grace=PATIENCE)
    async with Recorder(kube.client, reporter=WHO, restraint=restraint) as events:
        for number in range(8):
            events.tell(thing, f"Reason{number}", "a", action="Do")
        assert events.statistics().dropped == 5
        for number in range(20):
            events.tell(
                Reference(kind="ConfigMap", name=f"n-{number}", namespace=kube.namespace), "R", "a", action="Do"
            )
        assert events.statistics().pending == 10
    assert len(await found(kube)) == 3


@pytest.mark.parametrize(
    "broken",
    [
        {"reason": ""},
        {"action": ""},
        {"regarding": Reference(kind="ConfigMap", name="thing", namespace="no-such-namespace")},
    ],
)
async def test_what_the_server_refuses_is_dropped_and_counted(
    kube: Kube, thing: Reference, broken: dict[str, Any]
) -> None:
    said: dict[str, Any] = {"regarding": thing, "reason": "One", "action": "Do"} | broken
    async with Recorder(kube.client, reporter=WHO, restraint=PATIENT) as events:
        events.tell(said["regarding"], said["reason"], "a", action=said["action"])
        await until_written(events)
        assert events.statistics().dropped == 1
        events.tell(thing, "Fine", "a", action="Do")
    assert [event.reason for event in await found(kube)] == ["Fine"]


async def test_a_server_out_of_reach_delays_nobody_and_hears_it_later(kube: Kube, thing: Reference) -> None:
    cable, clock = Cable(), asyncio.get_running_loop().time
    async with cable.laid(access.from_kubeconfig(kube.kubeconfig)) as through, Client(through) as client:
        async with Recorder(client, reporter=WHO, restraint=PATIENT) as events:
            cable.cut()
            # The cable runs in this loop: were it waited for, this would never come back.
            events.tell(thing, "One", "a", action="Do")
            await asyncio.sleep(0.2)
            assert events.statistics().pending == 1
            cable.mend()
            await until_written(events)
        assert len(await found(kube)) == 1
        async with Recorder(client, reporter=WHO, restraint=EventLimits(grace=0.3)) as events:
            cable.stall()
            events.tell(thing, "Two", "a", action="Do")
            await asyncio.sleep(0.1)
            began = clock()
        assert clock() - began < REQUEST / 2, "the farewell is bounded"
        cable.mend()


@pytest.mark.parametrize(
    ("note", "values", "said"),
    [
        ("{who} did it", {"who": "alice"}, "alice did it"),
        ("{who} did it", {"whom": "alice"}, "{who} did it"),
        ("{not: json}", {}, "{not: json}"),
    ],
)
def test_a_note_with_a_mistake_in_it_is_said_as_it_stands(note: str, values: dict[str, str], said: str) -> None:
    assert fill(note, values) == said


def test_a_long_note_is_cut_by_bytes_between_characters() -> None:
    note = fill("ä" * 2000, {})
    assert len(note.encode()) <= LONGEST_NOTE
    assert note.endswith("ä…")
    json.encode(note)
