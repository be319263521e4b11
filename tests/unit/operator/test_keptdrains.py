"""Which drain is kept for a Node, and in which ConfigMap."""

from collections.abc import AsyncIterator

import pytest
from tests.unit.operator.node.factories import node

from sunk.kube.api.client import Client
from sunk.kube.auth.access import Access
from sunk.kube.auth.credentials import Nobody
from sunk.kube.control.events import Recorder
from sunk.kube.core import ConfigMap
from sunk.kube.resource import Key, Metadata
from sunk.model import names
from sunk.model.contract import keptdrains
from sunk.operator.keptdrains import LABELS, SHARDS, KeptDrains, room
from sunk.service.part import Setting

CLUSTER = Key("team", "slurm")


@pytest.fixture
async def drains() -> AsyncIterator[KeptDrains]:
    async with Client(Access(server="http://127.0.0.1:1", tls=None, credentials=Nobody())) as client:
        recorder = Recorder(client, reporter="test", instance="test")
        yield KeptDrains(Setting(client=client, recorder=recorder, may_write=lambda: True))


def write(drains: KeptDrains, *, cluster: str = "slurm", **data: str) -> None:
    metadata = Metadata(
        name=f"{cluster}-kept-drains-0",
        namespace="team",
        uid=cluster,
        resource_version="1",
        labels=LABELS | {names.CLUSTER: cluster},
    )
    drains.collections[0].store.answered(ConfigMap(metadata=metadata, data=data))


def said(reason: str, uid: str) -> str:
    return keptdrains.write_record(keptdrains.KeptDrain(reason, uid=uid))


async def test_a_node_that_is_another_object_gets_its_drain_back(drains: KeptDrains) -> None:
    write(drains, n=said("bad fan", "another"))
    assert drains.line(node(), cluster=CLUSTER) == "bad fan"


async def test_a_line_that_somebody_took_off_does_not_come_back(drains: KeptDrains) -> None:
    write(drains, n=said("bad fan", node().metadata.uid))
    assert drains.line(node(), cluster=CLUSTER) is None


async def test_what_the_node_says_itself_counts(drains: KeptDrains) -> None:
    write(drains, n=said("bad fan", "another"))
    assert drains.line(node(kept_drain="team/slurm:bad disk"), cluster=CLUSTER) == "bad disk"


async def test_each_cluster_has_its_own(drains: KeptDrains) -> None:
    write(drains, cluster="other", n=said("bad fan", "another"))
    assert drains.line(node(), cluster=CLUSTER) is None
    assert drains.line(node(kept_drain="team/other:bad fan"), cluster=CLUSTER) is None


async def test_a_reason_that_a_person_wrote_counts_and_what_cannot_be_read_does_not(drains: KeptDrains) -> None:
    write(drains, n="bad fan")
    assert drains.line(node(), cluster=CLUSTER) == "bad fan"
    write(drains, cluster="other", n="{")
    assert drains.line(node(), cluster=Key("team", "other")) is None


async def test_a_line_is_taken_off_only_from_the_object_that_had_it(drains: KeptDrains) -> None:
    write(drains, n=said("bad fan", node().metadata.uid))
    assert drains.taken_off(node(), cluster=CLUSTER)
    assert not drains.taken_off(node(kept_drain="team/slurm:bad fan"), cluster=CLUSTER)
    write(drains, cluster="other", n=said("bad fan", "another"))
    assert not drains.taken_off(node(), cluster=Key("team", "other"))
    assert drains.clusters("n") == {CLUSTER, Key("team", "other")}


async def test_a_line_that_stands_on_the_node_alone_is_to_be_written_down(drains: KeptDrains) -> None:
    here = node(kept_drain="team/slurm:bad fan\nteam/other:bad disk\nteam/:nobody's\nno line")
    other = Key("team", "other")
    assert drains.unwritten(here) == {CLUSTER: "bad fan", other: "bad disk"}
    write(drains, n=said("bad fan", here.metadata.uid))
    write(drains, cluster="other", n=said("bad disk", "another"))
    assert drains.unwritten(here) == {other: "bad disk"}


async def test_a_node_concerns_while_a_drain_is_kept_on_it_or_beside_it(drains: KeptDrains) -> None:
    assert not drains.concern(node())
    assert drains.concern(node(kept_drain="team/slurm:bad fan"))
    write(drains, n=said("bad fan", "another"))
    assert drains.concern(node())


def test_the_first_with_room_takes_the_next_one_and_there_is_an_end() -> None:
    name = "slurm-kept-drains-{}".format
    assert room(CLUSTER, {}) == name(0)
    assert room(CLUSTER, {name(0): keptdrains.MOST - 1}) == name(0)
    assert room(CLUSTER, {name(0): keptdrains.MOST, name(1): 3}) == name(1)
    assert room(CLUSTER, {name(number): keptdrains.MOST for number in range(SHARDS)}) == ""
