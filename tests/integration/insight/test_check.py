"""`sunk check` on a real API server: who would be evicted, and whether the command that it prints helps."""

import asyncio
import secrets
import shlex
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import json
from tests import crds
from tests.conftest import Kube

from sunk.insight.check.survey import DAEMONSETS
from sunk.kube.api.client import Deletion
from sunk.kube.api.patch import Json
from sunk.kube.core import NODES, PODS
from sunk.model import names

PATIENCE = 120.0
BOUNDED = {"key": names.LOCK, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}


@pytest.fixture
async def node(kube: Kube) -> AsyncIterator[str]:
    await crds.install(kube.cluster)
    name = f"shared-{secrets.token_hex(4)}"
    await kube.client.create(NODES, {"metadata": {"name": name, "labels": {"fleet": name}}})
    yield name
    await kube.client.delete(NODES, name)


async def check(kube: Kube, node: str) -> tuple[int, list[dict[str, Any]]]:
    program = str(Path(sys.executable).with_name("sunk"))
    words = ("check", "-l", f"fleet={node}", "-o", "json", "--kubeconfig", str(kube.kubeconfig))
    made = await asyncio.create_subprocess_exec(program, *words, stdout=PIPE, stderr=PIPE)
    async with asyncio.timeout(PATIENCE):
        out, told = await made.communicate()
    assert made.returncode in {0, 1}, told.decode()
    return made.returncode, json.decode(out)["evicted"]


async def agent(kube: Kube, node: str, *tolerations: dict[str, Any]) -> None:
    spec = {
        "containers": [{"name": "main", "image": "none"}],
        "nodeSelector": {"fleet": node},
        "tolerations": list(tolerations),
    }
    labels = {"app": "agent"}
    whole = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}}
    await kube.client.create(DAEMONSETS, {"metadata": {"name": "agent"}, "spec": whole}, namespace=kube.namespace)


async def test_an_empty_node_has_nobody_to_evict(kube: Kube, node: str) -> None:
    assert await check(kube, node) == (0, [])


@pytest.mark.parametrize("there", [(), (BOUNDED,)], ids=["no toleration", "a bounded one"])
async def test_the_command_for_a_daemonset_lets_it_stay(
    kube: Kube, node: str, there: tuple[dict[str, Any], ...]
) -> None:
    await agent(kube, node, *there)
    code, (found,) = await check(kube, node)
    assert code == 1
    assert (found["kind"], found["name"], found["nodes"]) == ("DaemonSet", "agent", [node])
    assert found["bounded"] == (300 if there else None)
    patch = Json(json.decode(shlex.split(found["command"])[-1]))
    await kube.client.patch(DAEMONSETS, "agent", patch, namespace=kube.namespace)
    # Pods of the old template may be there still, and their controller replaces them.
    async with asyncio.timeout(PATIENCE):
        while (await check(kube, node))[0]:
            await asyncio.sleep(0.5)


async def test_bare_pods_are_told(kube: Kube, node: str) -> None:
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "none"}]}
    await kube.client.create(PODS, {"metadata": {"name": "alone"}, "spec": spec}, namespace=kube.namespace)
    code, (found,) = await check(kube, node)
    assert (code, found["kind"], found["name"], found["command"]) == (1, "Pod", "alone", "")
    await kube.client.delete(PODS, "alone", Deletion(grace_period_seconds=0), namespace=kube.namespace)
