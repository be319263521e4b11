"""What the one door asks before anything is destroyed, in which order, and what it refuses."""

import asyncio
from contextlib import suppress

import pytest
from msgspec.structs import replace
from tests.unit.slurm.blank import blank
from tests.unit.slurm.scripted import gone, job
from tests.unit.syncer.builders import drained, entry, pod, row, slice_of
from tests.unit.syncer.removal.door import as_seen, conflict, door, newer

from sunk.kube.errors import Forbidden, Status
from sunk.model import loopclock, names
from sunk.model.contract import clearance
from sunk.model.nodeslice import NodeSliceStatus, Refused
from sunk.slurm.mirror.confidence import Stale
from sunk.slurm.records import Reservation
from sunk.syncer.removal.blockers import drain_blocker
from sunk.syncer.removal.guard import DeletedRecords, Guard, RequestedRestart

pytestmark = pytest.mark.looptime
CROWD = tuple(row(f"x{number}") for number in range(8))
WHY = "Slurm has no node of this name"


# A permit: Slurm is read for it


async def test_a_permit_stands_on_a_whole_read_that_begins_after_the_question() -> None:
    async with door(row("n1")) as at:
        at.slurm.put(drained("n1", reason="alice: bad fan"))
        await at.guard.permit()
        assert at.steps == ["read Slurm"]
        assert at.row("n1").reason == "alice: bad fan"


async def test_no_permit_while_slurm_does_not_answer() -> None:
    async with door(row("n1")) as at:
        at.slurm.away, heard = gone(), []
        with pytest.raises(Stale, match="could not be read"):
            await at.guard.permit(on_read=lambda: heard.append("read"))
        assert heard == []


async def test_no_permit_while_slurm_is_hard_to_believe_but_its_answer_is_heard() -> None:
    async with door(row("n1"), *CROWD) as at:
        at.slurm.drop(*(node.name for node in CROWD))
        heard: list[str] = []
        with pytest.raises(Stale, match="implausible loss"):
            await at.guard.permit(on_read=lambda: heard.append("read"))
        assert heard == ["read"]


async def test_kubernetes_is_caught_up_with_before_slurm_is_read() -> None:
    async with door(row("n1")) as at:
        await at.guard.permit(catch_up=True)
        assert at.steps == ["list nodeslices", "list nodesets", "list pods", "read Slurm"]


# Records


async def test_a_record_goes_after_its_pod_was_asked_for_and_leadership_last() -> None:
    async with door(row("n1"), row("n2")) as at:
        deleted = await at.delete("n1", "n2", podless=True)
        assert deleted == DeletedRecords(done=("n1", "n2"))
        assert at.steps == ["get n1", "get n2", "leads?", "delete n[1-2]"]


async def test_a_drain_a_job_and_a_reservation_each_keep_a_record_and_no_other() -> None:
    rows = (drained("n1", reason="alice: bad fan"), row("n2"), row("n3"), row("n4"))
    others = (job(7, nodes="n[1-2]"), blank(Reservation, name="fix", nodes="n[1-3]"))
    async with door(*rows, *others) as at:
        deleted = await at.delete("n1", "n2", "n3", "n4", podless=True)
        assert deleted.done == ("n4",)
        assert deleted.refused == {
            "n1": "drained by a user or by Slurm: alice: bad fan",
            "n2": "job 7 is on it",
            "n3": "it is in the reservation fix",
        }
        assert at.steps == ["get n4", "leads?", "delete n4"], "what is blocked is asked nothing more"


async def test_a_record_whose_pod_is_there_stays_and_that_is_said() -> None:
    async with door(row("n1"), pods=(pod("n1"),)) as at:
        deleted = await at.delete("n1", podless=True)
        assert deleted.done == ()
        assert "its Pod still exists" in deleted.refused["n1"]
        assert at.steps == ["get n1"]
        assert (await at.delete("n1")).done == ("n1",), "unless it may be there"


async def test_a_pod_that_cannot_be_asked_for_keeps_its_record_and_no_other() -> None:
    async with door(row("n1"), row("n2")) as at:
        answers = iter([Forbidden(Status(code=403), asked="pods n1"), None])

        async def answer() -> None:
            if (refusal := next(answers)) is not None:
                raise refusal

        at.kube.meanwhile = answer
        deleted = await at.delete("n1", "n2", podless=True)
        assert deleted.done == ("n2",)
        assert "its Pod cannot be checked" in deleted.refused["n1"]


async def test_no_record_goes_while_another_process_leads() -> None:
    async with door(row("n1"), drained("n2", reason="alice: bad fan")) as at:
        at.stage.leads = False
        assert await at.delete("n1", "n2") == DeletedRecords(
            refused={"n2": "drained by a user or by Slurm: alice: bad fan"}
        )
        assert at.steps == ["leads?"]
        assert at.slurm.node("n1") is not None


async def test_a_record_that_has_changed_since_it_was_seen_stays() -> None:
    async with door(row("n1")) as at:
        permit = await at.guard.permit()
        seen = {"n1": at.row("n1")}
        at.slurm.put(drained("n1", reason="alice: bad fan"))
        deleted = await permit.delete_records(seen, drain_blocker=drain_blocker)
        assert deleted == DeletedRecords(refused={"n1": "the node changed in the meantime"})
        assert at.slurm.node("n1") is not None


async def test_a_record_that_cannot_be_read_any_more_is_not_taken_for_deleted() -> None:
    async with door(row("n1"), row("n2")) as at:
        permit = await at.guard.permit()
        seen = {name: at.row(name) for name in ("n1", "n2")}
        at.slurm.drop_in_silence("n1")
        at.slurm.unreadable = ("n1: its state is no number",)
        deleted = await permit.delete_records(seen, drain_blocker=drain_blocker)
        assert deleted == DeletedRecords(done=("n2",), refused={"n1": "its record in Slurm cannot be read"})


async def test_a_reservation_made_while_pods_are_asked_for_keeps_a_record() -> None:
    async with door(row("n1"), row("n2")) as at:

        async def reserve() -> None:
            at.slurm.put(blank(Reservation, name="fix", nodes="n1"))
            await at.context.mirror.read_after(whole=True)

        at.kube.meanwhile = reserve
        deleted = await at.delete("n1", "n2", podless=True)
        assert deleted == DeletedRecords(done=("n2",), refused={"n1": "it is in the reservation fix"})


async def test_a_reservation_whose_nodes_cannot_be_read_keeps_records_and_ends_nothing() -> None:
    async with door(row("n1"), blank(Reservation, name="odd", nodes="n[1-")) as at:
        deleted = await at.delete("n1")
        assert deleted.refused == {"n1": "it may be in the reservation odd, whose nodes cannot be read"}


async def test_no_record_goes_once_another_process_leads_however_far_it_came() -> None:
    async with door(row("n1")) as at:
        at.slurm.during_order = lambda: setattr(at.stage, "leads", False)
        assert await at.delete("n1") == DeletedRecords()
        assert at.slurm.node("n1") is not None


async def test_one_by_one_each_record_is_asked_about_again() -> None:
    async with door(row("n1"), row("n2"), row("n3")) as at:
        at.slurm.busy = frozenset({"n1"})
        asked, leads = [], at.context.may_write

        def may_write() -> bool:
            asked.append(leads())
            return len(asked) < 3

        at.guard = Guard(replace(at.context, may_write=may_write), at.jobs_by_node)
        deleted = await at.delete("n1", "n2", "n3")
        assert [step for step in at.steps if step.startswith("delete")] == ["delete n[1-3]", "delete n1"]
        assert deleted.done == ()
        assert at.slurm.node("n2") is not None, "another process leads by then"


async def test_no_record_goes_when_slurm_is_hard_to_believe_by_then() -> None:
    async with door(row("n1"), *CROWD) as at:

        async def lose() -> None:
            at.slurm.drop(*(node.name for node in CROWD))
            with suppress(Stale):
                await at.context.mirror.read_after(whole=True)

        at.kube.meanwhile = lose
        with pytest.raises(Stale, match="implausible loss"):
            await at.delete("n1", podless=True)
        assert at.slurm.node("n1") is not None


async def test_no_pod_is_restarted_when_slurm_is_hard_to_believe_by_then() -> None:
    """The job that kept it is lost with the rest."""
    unknown = pod("n1")
    async with door(row("n1"), *CROWD, job(7, nodes="n1"), pods=(unknown,)) as at:
        permit = await at.guard.permit()

        async def lose() -> None:
            at.slurm.drop("n1", *(node.name for node in CROWD))
            at.slurm.drop(7)
            with suppress(Stale):
                await at.context.mirror.read_after(whole=True)

        at.kube.meanwhile = lose
        with pytest.raises(Stale, match="implausible loss"):
            await permit.restart(at.kube.pods["n1"], reason=lambda *_: WHY)
        assert at.kube.patches == []


# Clearances


async def test_a_clearance_carries_the_pod_as_it_was_seen_and_the_date_of_the_read() -> None:
    async with door(row("n1"), pods=(pod("n1"),)) as at:
        seen = at.kube.pods["n1"]
        permit = await at.guard.permit()
        began = loopclock.now() - at.context.mirror.age
        await asyncio.sleep(2)
        at.steps.clear()
        assert await permit.clear(seen, drain="5:k8s: pending deletion")
        assert at.steps == ["leads?", "patch pods/n1"]
        (body,) = at.kube.patches
        cleared = clearance.read(body["metadata"].pop("annotations")[names.CLEAR_TO_DELETE])
        assert body["metadata"] == as_seen(seen)
        assert cleared is not None
        assert cleared.drain == "5:k8s: pending deletion"
        age = at.kube.clock.now().timestamp() - cleared.read.timestamp()
        assert age == pytest.approx(loopclock.now() - began, abs=0.5), "of the read, not of the write"


async def test_nothing_is_cleared_with_a_job_on_it_or_while_another_leads() -> None:
    async with door(row("n1"), job(7, nodes="n1"), pods=(pod("n1"), pod("n2"))) as at:
        permit = await at.guard.permit()
        at.steps.clear()
        assert not await permit.clear(at.kube.pods["n1"], drain="5:k8s: pending deletion")
        assert at.steps == []
        at.stage.leads = False
        assert not await permit.clear(at.kube.pods["n2"], drain="0:Slurm does not know it")
        assert at.steps == ["leads?"]


async def test_a_clearance_is_taken_back_without_a_read_also_while_slurm_is_away() -> None:
    async with door(row("n1"), pods=(pod("n1"),)) as at:
        at.slurm.away, seen = gone(), at.kube.pods["n1"]
        assert await at.guard.revoke(seen)
        assert at.steps == ["leads?", "patch pods/n1"]
        assert at.kube.patches == [{"metadata": as_seen(seen) | {"annotations": {names.CLEAR_TO_DELETE: None}}}]
        at.stage.leads = False
        assert not await at.guard.revoke(seen)
        assert len(at.kube.patches) == 1


# Restarts


async def test_a_restart_is_asked_for_the_very_pod_and_leadership_is_checked_last() -> None:
    async with door(pods=(pod("n1"),)) as at:
        permit, now = await at.guard.permit(), at.kube.pods["n1"]
        at.steps.clear()
        assert await permit.restart(pod("n1"), reason=lambda *_: WHY) == RequestedRestart(now, WHY)
        assert at.steps == ["list pods n1", "leads?", "patch pods/n1"]
        (body,) = at.kube.patches
        assert body["metadata"].pop("annotations")[names.RESTART].endswith(f":{WHY}")
        assert body["metadata"] == as_seen(now), "as it is now, and not as it was seen"


async def test_no_restart_of_another_pod_of_one_that_is_gone_or_without_a_reason() -> None:
    async with door(pods=(pod("n1"),)) as at:
        permit = await at.guard.permit()
        at.steps.clear()
        assert await permit.restart(pod("n1", uid="of the one before"), reason=lambda *_: WHY, tries=3) is None
        assert await permit.restart(pod("n1"), reason=lambda *_: "", tries=3) is None
        at.kube.pods.clear()
        assert await permit.restart(pod("n1"), reason=lambda *_: WHY, tries=3) is None
        assert at.steps == ["list pods n1"] * 3, "none is tried again"


async def test_no_restart_with_a_job_on_it_or_while_another_leads() -> None:
    async with door(row("n1"), job(7, nodes="n1"), pods=(pod("n1"),)) as at:
        permit = await at.guard.permit()
        at.steps.clear()
        assert await permit.restart(pod("n1"), reason=lambda *_: WHY, tries=3) is None
        assert at.steps == ["list pods n1"]
        at.slurm.drop(7)
        await asyncio.sleep(2)
        at.stage.leads = False
        at.steps.clear()
        assert await permit.restart(pod("n1"), reason=lambda *_: WHY, tries=3) is None
        assert at.steps == ["list pods n1", "leads?"]
        assert at.kube.patches == []


async def test_a_pod_that_changes_meanwhile_is_confirmed_again_before_it_is_asked_for() -> None:
    async with door(pods=(pod("n1"),)) as at:
        permit, before = await at.guard.permit(), at.kube.pods["n1"]
        at.kube.refusals = iter([conflict(), conflict()])
        assert await permit.restart(before, reason=lambda *_: WHY) is None, "once, unless more is wanted"
        restart = await permit.restart(before, reason=lambda *_: WHY, tries=3)
        assert restart is not None
        (body,) = at.kube.patches
        assert body["metadata"]["resourceVersion"] == restart.pod.metadata.resource_version
        assert restart.pod.metadata.resource_version != before.metadata.resource_version


# Names


async def test_no_name_becomes_free_without_a_permit() -> None:
    async with door() as at:
        node_slice = newer(slice_of(entry("n1", "leaving")))
        at.stage.put(node_slice)
        freed = NodeSliceStatus(released=("n1",))
        with pytest.raises(Stale, match="n1 would be released without a read"):
            await at.guard.write_status(node_slice, freed, permit=None)
        assert at.kube.patches == []
        permit = await at.guard.permit()
        at.steps.clear()
        await at.guard.write_status(node_slice, freed, permit=permit)
        assert at.steps == ["leads?", "patch nodeslices/set-0"]
        assert at.kube.patches == [
            {"metadata": as_seen(node_slice), "status": {"released": ("n1",), "refused": ()}},
        ]


async def test_a_refusal_and_a_name_that_stays_need_no_permit() -> None:
    async with door() as at:
        node_slice = replace(slice_of(entry("n1", "leaving")), status=NodeSliceStatus(released=("n1", "n2")))
        at.stage.put(node_slice)
        refused = NodeSliceStatus(released=("n1",), refused=(Refused("n3", "job 7 is on it"),))
        await at.guard.write_status(node_slice, refused, permit=None)
        assert [body["status"]["released"] for body in at.kube.patches] == [("n1",)]


async def test_a_slice_is_not_written_if_it_says_so_already_or_while_another_leads() -> None:
    async with door() as at:
        node_slice = slice_of(entry("n1", "leaving"))
        await at.guard.write_status(node_slice, node_slice.status, permit=None)
        assert at.steps == []
        at.stage.leads = False
        await at.guard.write_status(node_slice, NodeSliceStatus(refused=(Refused("n1", "busy"),)), permit=None)
        assert at.steps == ["leads?"]


async def test_who_has_a_pod_is_asked_of_the_api_server_one_by_one() -> None:
    async with door(pods=(pod("n1"),)) as at:
        assert (await at.guard.pods(["n1", "n2"])).keys() == {"n1"}
        assert sorted(at.steps) == ["get n1", "get n2"]
