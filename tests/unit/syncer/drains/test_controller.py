"""How changes become orders: when, in how few calls, and what is left alone."""

import asyncio
from datetime import UTC, datetime

import pytest
from msgspec import json
from tests.unit.slurm.scripted import gone
from tests.unit.syncer.builders import drained, entry, going, pod, row, slice_of
from tests.unit.syncer.scripted import Slurm, Stage, known, staged
from tests.unit.syncer.stores import remove

from sunk.model import hostlist
from sunk.slurm.errors import Denied
from sunk.slurm.libslurm.wire import NodeChange
from sunk.slurm.states import NodeBase

pytestmark = pytest.mark.looptime

MANY = [f"n{number}" for number in range(1000)]


def now() -> float:
    return asyncio.get_running_loop().time()


def wall() -> float:
    """How long after the Pods of the cast began it is; they are not ready by this clock."""
    return (datetime.now(UTC) - pod().status.start_time).total_seconds()  # type: ignore[operator]


def falling(name: str) -> object:
    return pod(name, ready=False, since=wall())


async def test_a_cordon_is_a_drain_at_once_and_an_uncordon_takes_it_back() -> None:
    async with staged(["n1", "n2"]) as stage:
        stage.put(pod("n1", cordon="disk"))
        await asyncio.sleep(0.1)
        assert stage.slurm.drains() == [("n1", "k8s: cordon: disk")]
        stage.put(pod("n1"))
        await asyncio.sleep(0.5)
        assert stage.slurm.drains()[1:] == [("n1", None)]
        assert not stage.slurm.is_drained("n1")


async def test_a_thousand_cordons_in_a_few_seconds_are_a_handful_of_calls() -> None:
    async with staged(MANY) as stage:
        for start in range(0, 1000, 20):
            stage.put(*(pod(name, cordon="disk") for name in MANY[start : start + 20]))
            await asyncio.sleep(0.08)
        await asyncio.sleep(2)
        assert all(stage.slurm.is_drained(name) for name in MANY)
        assert len(stage.slurm.told) <= 10


async def test_different_reasons_are_different_calls_of_one_round() -> None:
    async with staged(MANY[:15]) as stage:
        rounds = stage.drains.statistics().counts.rounds
        stage.put(*(pod(name, cordon=f"reason {number % 3}") for number, name in enumerate(MANY[:15])))
        await asyncio.sleep(0.2)
        assert len(stage.slurm.drains()) == 3
        assert stage.drains.statistics().counts.rounds == rounds + 1


async def test_a_drain_that_somebody_else_put_on_since_the_last_read_is_left_alone() -> None:
    async with staged(["n1"]) as stage:
        stage.put(pod("n1", cordon="disk"))
        await asyncio.sleep(1)
        stage.slurm.put(drained("n1", reason="alice: fan", reason_time=5))
        stage.put(pod("n1"))
        await asyncio.sleep(1)
        assert stage.slurm.drains() == [("n1", "k8s: cordon: disk")]


async def test_a_text_of_ours_on_a_node_in_service_is_replaced_so_that_slurms_own_drain_is_not_dressed_in_it() -> None:
    async with staged(["n1"], rows=[row("n1", reason="k8s: cordon")]) as stage:
        await asyncio.sleep(1)
        found = stage.slurm.node("n1")
        assert found is not None
        assert found.reason == "Not responding"
        assert stage.slurm.drains() == []


async def test_a_drain_that_somebody_lifts_too_early_is_put_back() -> None:
    async with staged(["n1"]) as stage:
        stage.put(pod("n1", cordon="disk"))
        await asyncio.sleep(1)
        stage.slurm.put(known("n1", reason="k8s: cordon: disk"))
        await asyncio.sleep(2)
        assert stage.slurm.drains() == [("n1", "k8s: cordon: disk")] * 2


async def test_a_drain_of_a_person_that_was_not_read_yet_is_not_written_over() -> None:
    async with staged(["n1"]) as stage:
        stage.slurm.put(drained("n1", reason="alice: bad fan"))
        stage.put(pod("n1", cordon="disk"))
        await asyncio.sleep(2)
        assert stage.slurm.drains() == []
        stage.slurm.put(row("n1", reason="alice: bad fan"))
        await asyncio.sleep(2)
        assert stage.slurm.drains() == [("n1", "k8s: cordon: disk")]


async def test_who_is_no_member_is_never_told_anything() -> None:
    async with staged(["n1"]) as stage:
        stage.put(pod("stranger", cordon="disk"))
        stage.slurm.put(row("stranger"), drained("by-hand", reason="k8s: cordon"))
        await asyncio.sleep(5)
        assert stage.slurm.told == []


@pytest.mark.parametrize(
    "order",
    [
        "x" * 140_000,
        json.encode({"id": "1", "act": "drain", "reason": "r" * 140_000}).decode(),
        json.encode({"id": "i" * 140_000, "act": "undrain"}).decode(),
        '{"id":' * 10_000,
        '{"id":"1","act":"drain","deep":' + "[" * 10_000 + "]" * 10_000 + "}",
    ],
    ids=["no JSON", "a long reason", "a long id", "deep", "deep within"],
)
async def test_a_pod_with_an_impossible_name_and_an_impossible_order_keeps_nobody_waiting(order: str) -> None:
    odd = "x99999999999999999999"
    async with staged(["n1"]) as stage:
        stage.put(pod(odd, order=order, order_done='{"id":' * 10_000))
        await asyncio.sleep(1)
        stage.put(pod("n1", cordon="disk"))
        await asyncio.sleep(1)
        assert stage.slurm.drains() == [("n1", "k8s: cordon: disk")]


async def test_a_node_that_is_down_is_left_alone_until_it_is_up() -> None:
    async with staged(["n1"]) as stage:
        stage.slurm.put(drained("n1", reason="k8s: cordon", base=NodeBase.DOWN))
        await asyncio.sleep(5)
        assert stage.slurm.drains() == []
        stage.slurm.put(drained("n1", reason="k8s: cordon"))
        await asyncio.sleep(2)
        assert stage.slurm.drains() == [("n1", None)]


async def test_a_pod_that_is_gone_or_leaving_drains_its_node() -> None:
    async with staged(["n1", "n2"]) as stage:
        stage.put(going(pod("n1")))
        stage.put(slice_of(entry("n1"), entry("n2", "leaving"), name="set-0"))
        await asyncio.sleep(1)
        remove(stage.context.pods.store, pod("n1"))
        await asyncio.sleep(1)
        assert sorted(stage.slurm.drains()) == [("n1", "k8s: pod terminated"), ("n2", "k8s: pending deletion")]


# Pods that are not ready


async def test_a_pod_that_is_not_ready_for_a_while_drains_its_node_without_further_news() -> None:
    async with staged(["n1", "n2"]) as stage:
        stage.put(falling("n1"))
        await asyncio.sleep(4.9)
        assert stage.slurm.drains() == []
        await asyncio.sleep(0.3)
        assert stage.slurm.drains() == [("n1", "k8s: pod not ready")]


async def test_a_blink_is_no_drain() -> None:
    async with staged(["n1", "n2"]) as stage:
        stage.put(falling("n1"))
        await asyncio.sleep(4)
        stage.put(pod("n1"))
        await asyncio.sleep(60)
        assert stage.slurm.drains() == []


async def test_a_new_pod_that_was_never_ready_drains_its_node_at_once() -> None:
    async with staged(["n1"]) as stage:
        stage.put(pod("n1", uid="another", ready=False, since=0))
        await asyncio.sleep(0.1)
        assert stage.slurm.drains() == [("n1", "k8s: pod not ready")]


async def test_a_wave_is_put_off_and_said_and_who_is_not_back_by_then_is_drained() -> None:
    async with staged(MANY[:10]) as stage:
        stage.put(*(falling(name) for name in MANY[:6]))
        await asyncio.sleep(30)
        assert stage.slurm.drains() == []
        assert "6 of 10 Pods" in stage.drains.delayed
        assert stage.drains.report().delayed == stage.drains.delayed
        stage.put(*(pod(name) for name in MANY[:4]))
        await asyncio.sleep(31)
        assert stage.drains.delayed == ""
        assert sorted(stage.slurm.drains()) == [("n4", "k8s: pod not ready"), ("n5", "k8s: pod not ready")]
        assert stage.drains.statistics().waves == 1


async def test_a_pod_that_goes_during_a_wave_does_not_wait() -> None:
    async with staged(MANY[:10]) as stage:
        stage.put(*(falling(name) for name in MANY[:6]))
        await asyncio.sleep(1)
        stage.put(going(pod("n0", ready=False)))
        await asyncio.sleep(1)
        assert stage.slurm.drains() == [("n0", "k8s: pod terminated")]


# Trouble


async def test_a_group_that_is_refused_keeps_no_other_waiting_and_is_tried_again() -> None:
    async with staged(["n1", "n2"]) as stage:
        denied = Denied(2002, asked="drain n1")
        stage.slurm.refuses = lambda change: denied if "n1" in change.names else None
        stage.put(pod("n1", cordon="disk"), pod("n2", cordon="fan"))
        await asyncio.sleep(0.08)  # too soon for a second try
        assert stage.slurm.drains() == [("n2", "k8s: cordon: fan")]
        stage.slurm.refuses = lambda _: None
        await asyncio.sleep(5)
        assert stage.slurm.is_drained("n1")


async def test_what_is_refused_for_ever_is_tried_less_and_less_often() -> None:
    async with staged(["n1"]) as stage:
        tries: list[float] = []

        def refuse(_: NodeChange) -> Exception:
            tries.append(now())
            return Denied(2002, asked="drain n1")

        stage.slurm.refuses = refuse
        stage.put(pod("n1", cordon="disk"))
        await asyncio.sleep(60)
        assert 5 < len(tries) < 14


async def test_while_slurm_is_away_wishes_wait_and_are_then_carried_out_together() -> None:
    async with staged(MANY[:50]) as stage:
        stage.slurm.away = gone()
        await asyncio.sleep(5)
        for name in MANY[:50]:
            stage.put(pod(name, cordon="disk"))
            await asyncio.sleep(1)
        assert stage.slurm.told == []
        stage.slurm.away = None
        await asyncio.sleep(6)
        [(names, reason)] = stage.slurm.drains()
        assert set(hostlist.expand(names)) == set(MANY[:50])
        assert reason == "k8s: cordon: disk"


async def test_who_is_told_to_end_while_slurm_is_away_need_not_wait_for_it() -> None:
    async with staged(["n1", "n2"]) as stage:
        stage.slurm.away = gone()
        await asyncio.sleep(5)
        stage.put(pod("n1", cordon="disk"))
        await asyncio.sleep(1)
        assert not stage.drains.busy
        async with asyncio.timeout(1):
            await stage.drains.shut_down()


async def test_who_does_not_lead_tells_nothing() -> None:
    async with staged(["n1"]) as stage:
        stage.leads = False
        stage.put(pod("n1", cordon="disk", features="a"))
        await asyncio.sleep(5)
        assert stage.slurm.told == []


async def test_who_begins_to_lead_looks_at_everybody() -> None:
    stage = Stage(Slurm(row("n1"), drained("n2", reason="k8s: cordon")))
    stage.put(slice_of(entry("n1"), entry("n2")), pod("n1", cordon="disk"), pod("n2"))
    stage.complete()
    async with stage.context.mirror.running():
        for _ in range(2):
            stage.slurm.told.clear()
            stage.slurm.put(row("n1"), drained("n2", reason="k8s: cordon"))
            await stage.context.mirror.read_after()
            async with stage.running():
                await asyncio.sleep(2)
            assert sorted(stage.slurm.drains()) == [("n1", "k8s: cordon: disk"), ("n2", None)]
    await stage.client.close()


async def test_who_is_told_to_end_finishes_what_he_has_in_hand() -> None:
    async with staged(["n1"]) as stage:
        stage.put(pod("n1", cordon="disk"))
        await asyncio.sleep(0.01)
        assert stage.drains.busy
        await stage.drains.shut_down()
        assert stage.slurm.is_drained("n1")
        assert not stage.drains.busy
        stage.put(pod("n1"))
        await asyncio.sleep(5)
        assert stage.slurm.is_drained("n1")


# Features, Extra, rest


async def test_features_are_written_together_and_partitions_made_to_follow() -> None:
    async with staged(["n1", "n2"]) as stage:
        stage.put(pod("n1", features="a,b"), pod("n2", features="a,b"))
        await asyncio.sleep(1)
        assert [(each.names, each.features) for each in stage.slurm.told if each.features is not None] == [
            ("n[1-2]", "a,b")
        ]
        assert stage.reconfigures == 1


async def test_a_fresh_record_gets_the_drain_that_a_person_had_put_on_and_only_then_our_key() -> None:
    async with staged(["n1"]) as stage:
        stage.put(pod("n1", kept_drain="alice: bad fan"))
        stage.slurm.put(row("n1"))
        await asyncio.sleep(3)
        first, second = stage.slurm.told
        assert (first.reason, first.extra) == ("alice: bad fan", None)
        assert second.extra is not None
        assert "k8s" in json.decode(second.extra)
        stage.slurm.put(row("n1", extra=second.extra))
        await asyncio.sleep(3)
        assert len(stage.slurm.told) == 2, "a person has lifted it: it does not come back"


async def test_while_that_drain_cannot_be_put_on_our_key_does_not_say_that_it_is() -> None:
    async with staged(["n1"]) as stage:
        stage.slurm.refuses = lambda change: Denied(2002, asked="drain n1") if change.reason else None
        stage.put(pod("n1", kept_drain="alice: bad fan"))
        stage.slurm.put(row("n1"))
        await asyncio.sleep(10)
        assert stage.slurm.told == []


async def test_our_key_is_laid_beside_what_users_wrote_and_replaces_what_is_no_json() -> None:
    rows = [row("n1", extra='{"rack":7}'), row("n2", extra="rack 7")]
    async with staged(["n1", "n2"], rows=rows) as stage:
        found = {name: json.decode(stage.slurm.now["nodes"][name].extra) for name in ("n1", "n2")}
        assert found["n1"].keys() == {"rack", "k8s"}
        assert found["n2"].keys() == {"k8s"}
        stage.slurm.put(row("n1", extra='{"rack":8,"k8s":"mine"}'))
        await asyncio.sleep(3)
        assert json.decode(stage.slurm.now["nodes"]["n1"].extra) == found["n1"] | {"rack": 8}


async def test_thousands_of_keys_keep_no_drain_waiting() -> None:
    async with staged(MANY) as stage:
        stage.slurm.put(*(row(name) for name in MANY))
        await asyncio.sleep(1)
        stage.put(pod("n1", cordon="disk"))
        await asyncio.sleep(1)
        assert stage.slurm.is_drained("n1")
        assert stage.drains.statistics().extras.depth > 500


async def test_at_rest_nothing_is_looked_at_or_told_however_much_the_load_changes() -> None:
    async with staged(MANY[:100]) as stage:
        looks = stage.drains.statistics().queue.taken
        for turn in range(6):
            busy = NodeBase.MIXED if turn % 2 else NodeBase.IDLE
            stage.slurm.put(*(known(name, base=busy, cpus_load=turn) for name in MANY[:100]))
            await asyncio.sleep(3)
        assert stage.drains.statistics().queue.taken == looks
        assert stage.slurm.told == []


async def test_an_order_that_slurm_keeps_refusing_is_said_until_it_is_carried_out() -> None:
    async with staged(["n1", "n2"]) as stage:
        denied = Denied(2002, asked="update n1")
        stage.slurm.refuses = lambda _: denied
        stage.put(pod("n1", cordon="disk"))
        await asyncio.sleep(5)
        assert stage.drains.report().stuck == (), "a moment is nothing to tell of"
        await asyncio.sleep(10)
        (said,) = stage.drains.report().stuck
        assert "updates to n1 keep failing" in said
        assert str(denied) in said
        stage.slurm.refuses = lambda _: None
        await asyncio.sleep(40)
        assert stage.slurm.is_drained("n1")
        assert stage.drains.report().stuck == ()


async def test_what_was_refused_is_forgotten_when_it_is_no_longer_wanted() -> None:
    async with staged(["n1"]) as stage:
        stage.slurm.refuses = lambda _: Denied(2002, asked="update n1")
        stage.put(pod("n1", cordon="disk"))
        await asyncio.sleep(15)
        assert stage.drains.report().stuck
        stage.put(pod("n1"))
        await asyncio.sleep(1)
        assert stage.drains.report().stuck == ()
