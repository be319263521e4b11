"""`sunk verify` as a command: what it prints, and how it ends."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

from msgspec import json
from tests import crds
from tests.conftest import Kube

from sunk.insight.verify.watcher import Breach
from sunk.kube.api.client import Deletion
from sunk.kube.api.patch import Strategic
from sunk.kube.core import PODS
from sunk.model import names

PATIENCE = 90.0
NAME = "gpu-1"


async def watching(kube: Kube) -> Process:
    """A verify that has begun."""
    await crds.install(kube.cluster)
    program = str(Path(sys.executable).with_name("sunk"))
    where = ("--namespace", kube.namespace, "--kubeconfig", str(kube.kubeconfig))
    made = await asyncio.create_subprocess_exec(program, "verify", "--json", *where, stdout=PIPE, stderr=PIPE)
    assert made.stderr
    async with asyncio.timeout(PATIENCE):
        assert b"Slurm is not watched" in await made.stderr.readline()
    return made


async def interrupted(process: Process) -> str:
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(PATIENCE):
        _, told = await process.communicate()
    return told.decode()


async def deleted_without_leave(kube: Kube) -> None:
    """A Pod that has to go and may hold a job is deleted, though nobody has cleared it."""
    body = {
        "metadata": {
            "name": NAME,
            "labels": {names.COMPONENT: names.COMPUTE},
            "annotations": {names.PENDING_DELETION: "scaled in"},
        },
        "spec": {"nodeName": "node-1", "containers": [{"name": names.SLURMD, "image": "none"}]},
    }
    await kube.client.create(PODS, body, namespace=kube.namespace)
    began = {"name": names.SLURMD, "image": "", "imageID": "", "ready": True, "restartCount": 1}
    patch = Strategic({"status": {"containerStatuses": [began]}})
    await kube.client.patch(PODS, NAME, patch, namespace=kube.namespace, subresource="status")
    await kube.client.delete(PODS, NAME, Deletion(grace_period_seconds=0), namespace=kube.namespace)


async def test_interrupted_it_says_that_no_law_was_broken(kube: Kube) -> None:
    process = await watching(kube)
    assert "No law was" in await interrupted(process)
    assert process.returncode == 0


async def test_interrupted_it_ends_with_one_if_a_law_was_broken(kube: Kube) -> None:
    process = await watching(kube)
    assert process.stdout
    line = asyncio.create_task(process.stdout.readline())
    async with asyncio.timeout(PATIENCE):
        while not line.done():  # it may not have read everything yet
            await deleted_without_leave(kube)
            await asyncio.wait((line,), timeout=0.5)
    breach = json.decode(await line, type=Breach)
    assert (breach.fault.law, breach.fault.about) == (4, f"Pod {NAME}")
    assert " violation" in await interrupted(process)
    assert process.returncode == 1
