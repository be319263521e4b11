"""What Slurm does when told."""

import asyncio
import signal
from contextlib import suppress
from functools import partial

import pytest
from msgspec.structs import replace
from tests.slurm.asking import job, node, until

from sunk.local.slurm.remote import Remote
from sunk.slurm.errors import InvalidState, NotBatch, SlurmError, Transition
from sunk.slurm.libslurm.description import JobDescription
from sunk.slurm.libslurm.library import Library
from sunk.slurm.libslurm.wire import Expected, NodeChange
from sunk.slurm.orders import guarded
from sunk.slurm.orders.guarded import Covered
from sunk.slurm.orders.jobs import JobOrders
from sunk.slurm.orders.nodes import Orders
from sunk.slurm.states import JobBase, NodeBase, NodeFlag

ALICE = 1001


def _batch(script: str) -> JobDescription:
    wanted = JobDescription(name="batch", script=script, min_nodes=1, memory=50, user_id=ALICE, group_id=ALICE)
    return replace(wanted, std_out="/dev/null", std_err="/dev/null", requeue=True)


async def at_home(cluster: Remote, name: str) -> bool:
    """Whether a job of alice has written this file."""
    return (await asyncio.to_thread(cluster.attempt, "test", "-e", f"/home/alice/{name}")).code == 0


async def test_a_drain_and_its_reverse(library: Library, orders: Orders) -> None:
    reason = 'k8s: cordon: bad "fan", größer\nthan 3'
    assert (await orders.drain(["n1", "n2"], reason=reason)).done == ("n1", "n2")
    await orders.drain(["n1"], reason=reason)
    found = await node(library, "n1")
    assert found.state.drained
    assert (found.reason, found.reason_uid) == (reason, 64030)
    outcome = await orders.undrain(["n1", "n2", "g1", "nobody"])
    assert (outcome.done, outcome.refused, outcome.unknown) == (("n1", "n2"), ("g1",), ("nobody",))
    assert not (await node(library, "n1")).state.draining


async def test_an_unknown_name_keeps_no_other_node_from_its_drain(library: Library, orders: Orders) -> None:
    outcome = await orders.drain(["a-ghost", "n1", "n1x", "n2"], reason="k8s: test")
    assert (outcome.done, outcome.unknown) == (("n1", "n2"), ("a-ghost", "n1x"))
    assert (await node(library, "n2")).state.draining
    assert (await orders.drain(["a-ghost"], reason="k8s: test")).unknown == ("a-ghost",)
    await orders.undrain(["n1", "n2"])


async def test_an_undrain_does_not_revive_a_node_that_is_down(library: Library, orders: Orders) -> None:
    await orders.set_down(["n2"], reason="broken")
    await orders.drain(["n2"], reason="k8s: cordon: disk")
    assert (await orders.undrain(["n2"])).refused == ("n2",)
    found = await node(library, "n2")
    assert found.state.base is NodeBase.DOWN
    assert found.state.draining
    Remote().run("scontrol", "update", "nodename=n2", "state=resume", on="controller")


async def test_a_reason_alone_changes_no_state(library: Library, orders: Orders) -> None:
    await orders.drain(["n1"], reason="first")
    await orders.set_reason(["n1"], reason="just so")
    found = await node(library, "n1")
    assert (found.reason, found.state.draining) == ("just so", True)


async def test_features_are_replaced(library: Library, orders: Orders) -> None:
    await orders.set_features(["n1"], features=["a", "b"])
    found = await node(library, "n1")
    assert found.features == found.features_active == ("a", "b")


@pytest.mark.parametrize("before", ["", "{}", "not JSON", "[1]", '{"sunk": 0, "theirs": "ä"}'])
async def test_our_keys_are_laid_over_those_of_users(library: Library, orders: Orders, before: str) -> None:
    # `scontrol` cannot take an extra away, so each case starts from what it says.
    Remote().run("scontrol", "update", "nodename=n1", f"extra={before}", on="controller")
    kept = '"theirs":"ä"' in before or '"theirs": "ä"' in before
    ours = {"sunk": {"node": "k1"}}
    outcome = await orders.merge_extra(dict.fromkeys(("n1", "n2", "nobody"), ours))
    assert (outcome.done, outcome.unknown) == (("n1", "n2"), ("nobody",))
    found = (await node(library, "n1")).extra
    assert found == ('{"sunk":{"node":"k1"},"theirs":"ä"}' if kept else '{"sunk":{"node":"k1"}}')
    await orders.merge_extra({"n1": {"sunk": None, "theirs": None}})
    assert (await node(library, "n1")).extra == "{}"


async def test_nodes_are_created_and_deleted(library: Library, orders: Orders, jobs: JobOrders) -> None:
    line = "CPUs=4 RealMemory=1000 Feature=later State=CLOUD"
    for _ in range(2):
        assert (await orders.create(["made1", "made2"], line=line)).done == ("made1", "made2")
    found = await node(library, "made2")
    assert (found.cpus, found.features) == (4, ("later",))
    given = await jobs.allocate(
        JobDescription(name="on n1", wanted_nodes="n1", min_nodes=1, memory=10, user_id=ALICE, group_id=ALICE)
    )
    outcome = await orders.delete(["made1", "made2", "n1", "nobody"])
    assert (outcome.done, outcome.refused) == (("made1", "made2", "nobody"), ("n1",))
    assert "n1" in outcome.why["n1"], "what Slurm says names the request"
    assert {each.name for each in (await library.all_nodes()).rows} == {"n1", "n2", "g1"}
    await jobs.cancel(given.job)


async def test_a_creation_that_would_kill_slurmctld_is_never_sent(library: Library) -> None:
    with pytest.raises(ValueError, match="must start with NodeName="):
        library.wire.create_nodes(NodeChange(names="made9"))
    assert await library.ping()


async def test_an_error_says_what_was_asked(library: Library, orders: Orders) -> None:
    with pytest.raises(SlurmError, match=r"create nodes made9: .* \(ESLURM_\w+ \d+\)") as raised:
        await orders.create(["made9"], line="CPUs=4 State=IDLE")
    assert raised.value.errno == 2028
    assert isinstance(raised.value, InvalidState)
    assert await library.ping()


async def test_nodes_change_while_they_are_read(library: Library, orders: Orders) -> None:
    async def read() -> None:
        for _ in range(60):
            names = {each.name for each in (await library.all_nodes()).rows}
            assert {"n1", "n2", "g1"} <= names

    async def write() -> None:
        for _ in range(6):
            await orders.drain(["n1", "n2"], reason="k8s: test")
            await orders.create(["made3"], line="CPUs=4 State=CLOUD")
            await orders.undrain(["n1", "n2"])
            await orders.delete(["made3"])

    await asyncio.gather(read(), write())


async def test_a_batch_job_is_submitted_changed_and_signalled(
    library: Library, jobs: JobOrders, cluster: Remote
) -> None:
    script = "#!/bin/sh\ntrap 'exit 3' USR1\ntouch /home/alice/armed-$SLURM_JOB_ID\nwhile true; do sleep 0.1; done\n"
    given = await jobs.submit(_batch(script))

    async def running() -> bool:
        return (await job(library, given.job)).state.base is JobBase.RUNNING

    await until(running)
    assert await jobs.update(given.job, to=JobDescription(extra="x: started", comment="ü"))
    found = await job(library, given.job)
    assert (found.extra, found.comment, found.name) == ("x: started", "ü", "batch")
    await until(lambda: at_home(cluster, f"armed-{given.job}"))
    assert await jobs.signal(given.job, number=signal.SIGUSR1, batch_shell=True)

    async def failed() -> bool:
        return (await job(library, given.job)).state.base is JobBase.FAILED

    await until(failed)
    assert (await job(library, given.job)).exit_status == 3 << 8
    assert not await jobs.signal(given.job, number=signal.SIGUSR1)
    assert not await jobs.cancel(given.job)


async def test_one_step_is_signalled_alone(library: Library, jobs: JobOrders, cluster: Remote) -> None:
    # Slurm knows of a step before there is a process to be signalled.
    script = "#!/bin/sh\nsrun --overlap sh -c 'touch /home/alice/begun-$SLURM_JOB_ID; exec sleep 100'\nexit 7\n"
    given = await jobs.submit(_batch(script))
    await until(lambda: at_home(cluster, f"begun-{given.job}"))

    async def signalled() -> bool:
        with suppress(Transition):  # the job has not started yet
            return await jobs.signal(given.job, number=signal.SIGKILL, step=0)
        return False

    await until(signalled)

    async def failed() -> bool:
        return (await job(library, given.job)).state.base is JobBase.FAILED

    await until(failed)
    assert (await job(library, given.job)).exit_status == 7 << 8


async def test_a_batch_job_goes_back_into_the_queue(library: Library, jobs: JobOrders) -> None:
    given = await jobs.submit(_batch("#!/bin/sh\nsleep 100\n"))

    async def running() -> bool:
        return (await job(library, given.job)).state.base is JobBase.RUNNING

    async def held() -> bool:
        found = await job(library, given.job)
        return found.state.base is JobBase.PENDING and found.restarts == 1

    await until(running)
    assert await jobs.requeue(given.job, hold=True)
    await until(held)


async def test_only_a_batch_job_can_be_requeued(jobs: JobOrders) -> None:
    given = await jobs.allocate(JobDescription(name="bare", min_nodes=1, memory=10, user_id=ALICE, group_id=ALICE))
    with pytest.raises(NotBatch):
        await jobs.requeue(given.job)
    assert not await jobs.requeue(4_000_000)
    await jobs.cancel(given.job)


async def test_reconfigure_keeps_nodes_and_drains(library: Library, orders: Orders) -> None:
    await orders.drain(["n1"], reason="k8s: test")
    await orders.reconfigure()

    async def back() -> bool:
        with suppress(SlurmError):  # it reads its configuration
            return await library.ping() and NodeFlag.DRAIN in (await node(library, "n1")).state
        return False

    await until(back)
    await orders.undrain(["n1"])


# For nodes as they were seen


async def test_an_order_for_a_node_that_is_another_by_now_is_not_sent(library: Library, orders: Orders) -> None:
    await orders.drain(["n1"], reason="k8s: cordon")
    seen = {"n1": await node(library, "n1")}
    await orders.drain(["n1"], reason="bob: fan")
    for outcome in (await orders.undrain(["n1"], seen=seen), await orders.drain(["n1"], reason="k8s: x", seen=seen)):
        assert (outcome.done, outcome.changed) == ((), ("n1",))
    assert (await node(library, "n1")).reason == "bob: fan"
    now = {"n1": await node(library, "n1")}
    assert (await orders.undrain(["n1"], seen=now)).done == ("n1",)
    assert not (await node(library, "n1")).state.draining


async def test_an_order_for_many_is_not_sent_to_who_is_another_by_now(
    library: Library, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded, "FEW", 0)
    await orders.drain(["n1", "n2"], reason="k8s: cordon")
    seen = {name: await node(library, name) for name in ("n1", "n2")}
    await orders.drain(["n1"], reason="bob: fan")
    outcome = await orders.undrain(["n1", "n2"], seen=seen)
    assert (outcome.done, outcome.changed, outcome.covered) == (("n2",), ("n1",), {})
    assert (await node(library, "n1")).reason == "bob: fan"


async def test_a_node_that_is_gone_is_unknown(library: Library, orders: Orders) -> None:
    ghost = replace(await node(library, "n1"), name="ghost")
    outcome = await orders.drain(["ghost"], reason="k8s: test", seen={"ghost": ghost})
    assert (outcome.done, outcome.unknown) == ((), ("ghost",))


@pytest.mark.parametrize("flag", [NodeFlag.DRAIN, NodeFlag.FAIL])
async def test_what_was_lifted_can_be_put_back_as_it_was(library: Library, orders: Orders, flag: NodeFlag) -> None:
    now = await node(library, "n1")
    lost = replace(now, state_bits=now.state_bits | flag.value, reason="bob: fan")
    assert (await orders.put_back({"n1": Covered(row=lost, now=now)})).done == ("n1",)
    found = await node(library, "n1")
    assert flag in found.state
    assert found.reason == "bob: fan"
    assert (await orders.undrain(["n1"])).done == ("n1",)
    assert not (await node(library, "n1")).state.out_of_service


async def test_fail_and_drain_take_each_others_place_and_an_undrain_takes_both(
    library: Library, orders: Orders, cluster: Remote
) -> None:
    """What the rule for FAIL rests on."""
    cluster.run("scontrol", "update", "nodename=n1", "state=fail", "reason=bob: fan", on="controller")
    found = await node(library, "n1")
    assert found.state.failing
    assert not found.state.draining
    assert found.state.drained
    await orders.drain(["n1"], reason="k8s: test")
    assert not (await node(library, "n1")).state.failing


async def test_our_text_is_taken_off_a_node_in_service(library: Library, orders: Orders) -> None:
    await orders.drain(["n1"], reason="k8s: cordon")
    await orders.undrain(["n1"])
    seen = {"n1": await node(library, "n1")}
    if seen["n1"].reason:  # 26.05 has taken it off by itself
        assert (await orders.forget_reason(["n1"], seen=seen)).done == ("n1",)
    assert not (await node(library, "n1")).reason.startswith("k8s:")


@pytest.mark.parametrize("reason", ["caf\\351", "%070000d"])
async def test_a_reason_that_we_read_otherwise_than_it_stands_there_keeps_no_order_away(
    library: Library, orders: Orders, cluster: Remote, reason: str
) -> None:
    order = f"scontrol update nodename=n1 state=drain reason=$(printf '{reason}' 0)"
    cluster.run("sh", "-c", order, on="controller")
    seen = {"n1": await node(library, "n1")}
    assert (await orders.undrain(["n1"], seen=seen)).done == ("n1",)
    assert not (await node(library, "n1")).state.draining


async def test_a_long_reason_is_put_back_as_far_as_we_send_it(library: Library, orders: Orders) -> None:
    now = await node(library, "n1")
    lost = replace(now, state_bits=now.state_bits | NodeFlag.DRAIN.value, reason="ü" * 32_768 + "...")
    assert (await orders.put_back({"n1": Covered(row=lost, now=now)})).done == ("n1",)
    assert (await node(library, "n1")).reason == "ü" * 32_768
    await orders.undrain(["n1"])


async def test_what_was_seen_of_a_node_comes_back_with_the_error_of_its_change(library: Library) -> None:
    seen = await node(library, "n1")
    expected = Expected(state=seen.state_bits, flags=0, reason=seen.reason, reason_time=seen.reason_time)
    wrong = NodeChange(names="n1", state=NodeBase.ERROR.value)
    watched = await library.call(partial(library.wire.update_if, wrong, expected), asked="update node n1")
    assert watched.sent
    assert isinstance(watched.trouble, InvalidState)
    assert [row.name for row in watched.rows] == ["n1"]
    assert watched.between == ()
