"""The controller that the page about the kit shows does what the page says."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Kube

from sunk.kube.api.client import Client
from sunk.kube.api.limits import Bucket
from sunk.kube.api.patch import Merge
from sunk.kube.api.retry import Retry
from sunk.kube.auth import access
from sunk.kube.cache.collection import Collection
from sunk.kube.control.controller import Controller, Requeue, Source, itself
from sunk.kube.core import PODS
from sunk.kube.process.health import Health, served
from sunk.kube.process.metrics import QUEUE, Metrics
from sunk.kube.resource import Key
from sunk.kube.tasks import running

PORT = "port=8080"
PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "kube-kit.md"
NAMES = (access, asyncio, Bucket, Client, Collection, Controller, Health, Key, Merge, Metrics, Requeue, Retry, Source)
FUNCTIONS = (itself, running, served)


async def test_the_example_marks_a_pod(kube: Kube, monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kube.kubeconfig))
    example = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert example
    known: dict[str, Any] = {each.__name__.rpartition(".")[2]: each for each in (*NAMES, *FUNCTIONS)}
    known |= {"PODS": PODS, "QUEUE": QUEUE}
    assert PORT in example[1]
    here = example[1].replace(PORT, f"port={unused_tcp_port}")  # that of the page may be taken on this machine
    exec(here, known)  # noqa: S102 (a page of our own)
    work = asyncio.create_task(known["main"](), name="example")
    try:
        body = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "none"}]}}
        await kube.client.create(PODS, body, namespace=kube.namespace)
        async with asyncio.timeout(90):
            while "seen" not in (await kube.client.get(PODS, "a", namespace=kube.namespace)).metadata.annotations:
                await asyncio.sleep(0.05)
    finally:
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
