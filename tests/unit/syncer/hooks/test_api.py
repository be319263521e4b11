"""Who may call, and what is asked of Kubernetes where nothing has to be asked."""

from datetime import UTC, datetime

import pytest
from tests.unit.syncer.builders import CLUSTER, HERE, pod
from tests.unit.syncer.hooks.calls import call
from tests.unit.syncer.scripted import Slurm, Stage

from sunk.service.hooks.tokens import Caller
from sunk.syncer.hooks.api import HookApi, HookSettings
from sunk.syncer.hooks.reboot import Reboot, RebootSettings, reboot_condition
from sunk.syncer.jobs import JobsByNode

pytestmark = pytest.mark.looptime
NOW = datetime(2026, 1, 1, 12, 30, 15, 987, tzinfo=UTC)


def api(stage: Stage) -> HookApi:
    jobs_by_node = JobsByNode(stage.context.mirror.jobs)
    return HookApi(stage.context, jobs_by_node, HookSettings(), lift=stage.drains.enqueue)


@pytest.mark.parametrize(
    ("caller", "status"),
    [
        (Caller(HERE, "n1", "uid-of-n1"), None),
        (Caller(HERE, "n1", "of-the-one-before"), 403),
        (Caller(HERE, "n2", "uid-of-n2"), 403),
        (Caller("elsewhere", "n1", "uid-of-n1"), 403),
        (Caller(HERE, "login-0", "uid-of-n1"), 403),
    ],
)
async def test_a_pod_speaks_for_itself_only(caller: Caller, status: int | None) -> None:
    stage = Stage(Slurm())
    stage.put(pod("n1"), pod("n2"))
    answer = api(stage).admit(caller, "n1")
    assert (None if answer is None else answer.status) == status
    await stage.client.close()


async def test_a_pod_that_is_not_known_yet_is_told_so() -> None:
    stage = Stage(Slurm())
    answer = api(stage).admit(Caller(HERE, "n1", "uid-of-n1"), "n1")
    assert answer is not None
    assert answer.status == 404
    assert CLUSTER in answer.body["message"]
    await stage.client.close()


async def test_without_a_port_nothing_is_served() -> None:
    stage = Stage(Slurm())
    made = api(stage)
    assert (made.duties, made.unready, made.on_stop) == ({}, {}, ())
    names = [metric.name for one in made.collectors(prefix="x", requests=lambda: 3) for metric in one.collect()]
    assert names == ["x_lock_waiting", "x_lock_announced", "x_lock_requests", "x_lock_answers", "x_lock_seconds"]
    await stage.client.close()


async def test_without_permission_no_reboot_is_asked_for() -> None:
    stage = Stage(Slurm())
    stage.put(pod("n1"))
    answer = await Reboot(stage.client, stage.context.pods.store, RebootSettings())(call())
    assert answer.status == 403
    assert "syncer.nodePermissions.enabled" in answer.body["message"]
    await stage.client.close()


async def test_a_pod_that_is_gone_reboots_nothing() -> None:
    stage = Stage(Slurm())
    hook = Reboot(stage.client, stage.context.pods.store, RebootSettings(allowed=True))
    assert (await hook(call())).status == 404
    stage.put(pod("n1", uid="next"))
    assert (await hook(call())).status == 404
    await stage.client.close()


def test_the_condition_says_which_node_of_slurm_and_who_asks() -> None:
    made = reboot_condition(RebootSettings(condition="Power", reason="cycle"), node="n1", by="slurm/n1", now=NOW)
    assert made == {
        "type": "Power",
        "status": "True",
        "reason": "cycle",
        "message": "Slurm asks for a reboot of its node n1 (Pod slurm/n1)",
        "lastTransitionTime": NOW.replace(microsecond=0),
        "lastHeartbeatTime": NOW.replace(microsecond=0),
    }
