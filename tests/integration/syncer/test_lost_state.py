"""A slurmctld that lost its state: nothing is destroyed, and one clear word says why."""

import asyncio

import pytest
from tests.integration.syncer.stage import Stage, on_stage

from sunk.local.slurm.configuration import CONTROLLER
from sunk.model import names

pytestmark = [on_stage, pytest.mark.full]
SYNCER = ("--forget-after", "1", "--restart-unknown-after", "5")
MEMBERS = ("a1", "a2", "a3")


async def test_nothing_is_destroyed_and_it_is_said_until_they_have_registered_again(stage: Stage) -> None:
    for name in MEMBERS:
        await stage.join(name)
    before = {name: (await stage.pod(name)).metadata.uid for name in MEMBERS}
    await stage.sbatch("a1")
    await asyncio.to_thread(stage.slurm.stop, CONTROLLER)
    await asyncio.to_thread(stage.slurm.run, "sh", "-c", "rm -r /var/spool/slurmctld/*", on=CONTROLLER)
    await asyncio.to_thread(stage.slurm.start, CONTROLLER)
    await stage.held("3 of 3 nodes disappeared at once")
    await stage.mark("a2", {names.PENDING_DELETION: "scaled in"})

    # A syncer that begins now has never seen anything else.
    await stage.kill_syncer()
    await stage.held("2 of 2 ready Pods are not registered in Slurm")
    await stage.held("3 of 3 ready Pods are not registered in Slurm")
    assert {name: (await stage.pod(name)).metadata.uid for name in MEMBERS} == before
    assert names.CLEAR_TO_DELETE not in (await stage.pod("a2")).metadata.annotations
    await stage.condition("a1", names.SLURM_RUNNING, "Unknown", reason="NotRegistered")

    for name in MEMBERS:
        await asyncio.to_thread(stage.slurm.stop, name)
        await asyncio.to_thread(stage.slurm.start, name)
    await stage.not_held()
    await stage.pod_when("a2", lambda pod: names.CLEAR_TO_DELETE in pod.metadata.annotations)
    assert {name: (await stage.pod(name)).metadata.uid for name in MEMBERS} == before
