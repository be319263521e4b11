"""Our kinds on a bare API server, as `make generate` writes them."""

import asyncio
import subprocess

import yaml
from tests.conftest import Kubectl
from tests.waiting import eventually

from sunk.kube.api.client import Client
from sunk.kube.auth import access
from sunk.kube.errors import AlreadyExists, NotFound, TooManyRequests
from sunk.kube.resource import Record, Resource
from sunk.local.kubernetes.cluster import LocalCluster
from sunk.model.generate import crd_yaml
from sunk.model.kinds import KINDS

DEFINITIONS = Resource(
    Record, version="v1", plural="customresourcedefinitions", group="apiextensions.k8s.io", namespaced=False
)


async def install(api: LocalCluster) -> None:
    """Install them unless they are there, and wait until they are served."""
    async with Client(access.from_kubeconfig(api.kubeconfig)) as client, asyncio.timeout(180):
        for kind in KINDS:
            try:
                await client.create(DEFINITIONS, yaml.safe_load(crd_yaml(kind)))
            except AlreadyExists:
                continue
        for kind in KINDS:
            while not await _served(client, f"/apis/{kind.api_version}/{kind.plural}"):
                await asyncio.sleep(0.05)


def until_served(kubectl: Kubectl) -> None:
    """Wait until objects of our kinds are taken, which is a moment after their definitions are established."""
    for kind in KINDS:
        path = f"/apis/{kind.api_version}/{kind.plural}"
        command = [str(kubectl.program), "--kubeconfig", str(kubectl.kubeconfig), "get", "--raw", path]
        eventually(lambda: subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0)  # noqa: B023


async def _served(client: Client, path: str) -> bool:
    try:
        await client.request("GET", path)
    except (NotFound, TooManyRequests):
        return False
    return True
