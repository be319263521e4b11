"""A syncer whose Slurm is not there yet, or has a bad configuration: it says so, answers probes, and goes on when it can."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest_asyncio
from tests.integration.syncer.stage import CLUSTER, Stage, on_stage

from sunk.local.slurm.beside import Beside

pytestmark = on_stage

FILE = "another.conf"
ASK = """
import sys, urllib.request, urllib.error
try:
    print(urllib.request.urlopen(f"http://127.0.0.1:8080/{sys.argv[1]}", timeout=5).read().decode())
except urllib.error.HTTPError as refused:
    print(refused.read().decode())
except OSError as nobody:
    print(nobody)
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def other(stage: Stage) -> AsyncIterator[Beside]:
    """A second syncer, which looks for a configuration of its own."""
    command = ("sunk", "syncer", "--cluster", CLUSTER, "--namespace", stage.namespace, "--identity", "other")
    env = {"SLURM_CONF": f"/run/slurm/{FILE}"}
    yield await asyncio.to_thread(Beside, stage.slurm, "other", api=stage.api, command=command, env=env)


async def asked(stage: Stage, path: str) -> str:
    answer = await asyncio.to_thread(stage.slurm.attempt, "/opt/sunk/bin/python3", "-c", ASK, path, on="other")
    return answer.out


async def says(stage: Stage, path: str, holds: Callable[[str], bool]) -> str:
    return await stage.eventually(lambda: asked(stage, path), holds)


async def test_it_waits_for_a_configuration_and_for_a_good_one(stage: Stage, other: Beside) -> None:
    folder: Path = stage.slurm.layout.folder / "run"
    (folder / FILE).unlink(missing_ok=True)
    await asyncio.to_thread(other.start)
    await says(stage, "readyz", lambda text: f"no Slurm configuration at /run/slurm/{FILE}" in text)
    assert "good" in await asked(stage, "healthz")

    (folder / FILE).write_text("ThisIsNo=Setting\n")
    await says(stage, "readyz", lambda text: "libslurm ended with" in text)
    assert "good" in await asked(stage, "healthz")
    process = other.process

    (folder / FILE).write_text(stage.slurm.layout.client_configuration.read_text())
    await says(stage, "readyz", lambda text: "[+] slurm" in text and "[+] lease" in text)
    assert other.process == process
    assert "sunk_syncer_slurm_reads_total" in await asked(stage, "metrics")
    await asyncio.to_thread(other.stop)


async def test_told_to_stop_while_it_waits_it_ends(stage: Stage, other: Beside) -> None:
    (stage.slurm.layout.folder / "run" / FILE).unlink(missing_ok=True)
    await asyncio.to_thread(other.start)
    await says(stage, "readyz", lambda text: "no Slurm configuration" in text)
    await asyncio.to_thread(other.stop)
    assert not other.runs
