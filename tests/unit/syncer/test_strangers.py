"""When Pods that Slurm does not know are started anew, and when they are left alone."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.syncer.both import pod, row
from tests.unit.syncer.scripted import staged

from sunk.kube.api.limits import Bucket
from sunk.model import names
from sunk.syncer.pods import ComputePod, Condition
from sunk.syncer.removal.holders import Holders
from sunk.syncer.removal.unregistered import Strangers

NAMES = ["n1", "n2", "n3"]


@pytest.mark.looptime
async def test_where_most_were_unknown_the_others_get_the_time_to_register_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def restart(one: ComputePod) -> None:
        asked.append(one.metadata.name)

    async with staged(NAMES) as stage:
        told = Condition(
            names.SLURM_RUNNING, "Unknown", last_transition_time=datetime.now(UTC) - timedelta(seconds=900)
        )
        for name in NAMES:
            stage.slurm.drop(name)
            stage.put(pod(name, told))
        await asyncio.sleep(30)
        strangers = Strangers(
            stage.ground, stage.members, Holders(stage.ground.mirror.jobs), restarts=Bucket(1.0, burst=9)
        )
        monkeypatch.setattr(strangers, "_restart", restart)
        await strangers.look()
        assert "does not know 3 of the 3 Pods" in strangers.report().held
        stage.ground.mirror.accept()
        stage.slurm.put(row("n1"))
        stage.slurm.put(row("n2"))
        await asyncio.sleep(5)
        await strangers.look()
        assert (strangers.report().held, asked) == ("", []), "n3 may be about to register"
        await asyncio.sleep(stage.ground.manner.restart_unknown_after)
        await strangers.look()
        assert asked == ["n3"]
