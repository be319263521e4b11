"""A syncer whose Slurm is not there yet, or has a bad configuration: it says so, answers probes, and goes on when it can."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest_asyncio
from tests.integration.syncer.asking import asked
from tests.integration.syncer.stage import CLUSTER, Stage, on_stage

from sunk.local.slurm.component import Component

pytestmark = on_stage

FILE = "another.conf"
GOOD = 200


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def other(stage: Stage) -> AsyncIterator[Component]:
    """A second syncer, which looks for a configuration of its own."""
    command = ("sunk", "syncer", "--cluster", CLUSTER, "--namespace", stage.namespace, "--identity", "other")
    env = {"SLURM_CONF": f"/run/slurm/{FILE}"}
    yield await asyncio.to_thread(Component, stage.slurm, "other", api=stage.api, command=command, env=env)


async def says(stage: Stage, path: str, holds: Callable[[str], bool]) -> tuple[int, str]:
    return await stage.eventually(lambda: asked(stage.slurm, path, on="other"), lambda answer: holds(answer[1]))


async def is_good(stage: Stage, path: str) -> None:
    await stage.eventually(lambda: asked(stage.slurm, path, on="other"), lambda answer: answer[0] == GOOD)


async def test_it_waits_for_a_configuration_and_for_a_good_one(stage: Stage, other: Component) -> None:
    folder: Path = stage.slurm.layout.folder / "run"
    (folder / FILE).unlink(missing_ok=True)
    await asyncio.to_thread(other.start)
    await says(stage, "readyz", lambda text: f"no Slurm configuration at /run/slurm/{FILE}" in text)
    await is_good(stage, "healthz")

    (folder / FILE).write_text("ThisIsNo=Setting\n")
    await says(stage, "readyz", lambda text: "libslurm rejected the configuration" in text)
    await is_good(stage, "healthz")
    process = other.process

    (folder / FILE).write_text(stage.slurm.layout.client_configuration.read_text())
    await says(stage, "readyz", lambda text: "[+] slurm" in text and "[+] lease" in text)
    assert other.process == process
    await is_good(stage, "readyz")
    await says(stage, "metrics", lambda text: "sunk_syncer_slurm_reads_total" in text)
    await asyncio.to_thread(other.stop)


async def test_told_to_stop_while_it_waits_it_ends(stage: Stage, other: Component) -> None:
    (stage.slurm.layout.folder / "run" / FILE).unlink(missing_ok=True)
    await asyncio.to_thread(other.start)
    await says(stage, "readyz", lambda text: "no Slurm configuration" in text)
    await asyncio.to_thread(other.stop)
    assert not other.runs
