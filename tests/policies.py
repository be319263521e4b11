"""The admission policies for syncers on an API server, as the chart of the operator renders them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from msgspec import json
from msgspec.structs import replace
from tests.conftest import Kubectl
from tests.helm import CHART, Helm

from sunk.kube.api.client import Client
from sunk.kube.auth import access
from sunk.kube.auth.credentials import Token
from sunk.kube.errors import Forbidden, NotFound
from sunk.local.kubernetes import assets
from sunk.local.kubernetes.cluster import LocalCluster
from sunk.model.cluster.kind import SlurmClusterSpec
from sunk.model.contract.syncerwrites import ACCOUNT_SUFFIX
from sunk.operator.slurmcluster.daemons.syncer import objects
from sunk.operator.slurmcluster.resolve import resolve
from sunk.operator.slurmcluster.rollout.apply import KINDS

TEMPLATE = "templates/syncerpolicy.yaml"


def install(api: LocalCluster) -> None:
    """Hold all syncers to their policies, as an operator does that looks after every namespace."""
    parts = assets.fill(images=False).parts
    kubectl = Kubectl(program=parts.kubectl, kubeconfig=api.kubeconfig, namespace="default")
    options = ("--set", "allNamespaces=true", "--show-only", TEMPLATE)
    rendered = yaml.safe_load_all(Helm(parts.helm, kubectl)("template", "sunk", str(CHART), *options))
    # The one that is waited for comes last: whoever knows of it knows of the others.
    made = sorted(filter(None, rendered), key=lambda one: str(one["metadata"]["name"]).endswith("-leases"))
    kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(made))


async def _in_force(syncer: Client, namespace: str) -> None:
    """Wait until the API server heeds them: by its own Lease, which a syncer may not create under another name."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    async with asyncio.timeout(120):
        while True:
            try:
                await syncer.request("POST", path, query={"dryRun": "All"}, body={"metadata": {"name": "of-another"}})
            except Forbidden:
                return
            await asyncio.sleep(0.1)


async def account(client: Client, namespace: str, *, cluster: str) -> str:
    """Make the account of a cluster's syncer with its rights, and give a token of it."""
    for one in objects(resolve(SlurmClusterSpec(), name=cluster, namespace=namespace)):
        if one["kind"] in {"ServiceAccount", "Role", "RoleBinding"}:
            await client.create(KINDS[one["kind"]], one, namespace=namespace)
    return await token_of(client, namespace, account=f"{cluster}{ACCOUNT_SUFFIX}")


async def token_of(client: Client, namespace: str, *, account: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    token: str = json.decode(await client.post(path, {"spec": {"expirationSeconds": 6 * 3600}}))["status"]["token"]
    return token


def write_kubeconfig(path: Path, like: Path, *, token: str) -> None:
    """Write a kubeconfig for the same server with a token in place of the administrator's certificate."""
    config = yaml.safe_load(like.read_text())
    config["users"][0]["user"] = {"token": token}
    path.write_text(yaml.safe_dump(config))


@asynccontextmanager
async def speaking(kubeconfig: Path, token: str, *, namespace: str) -> AsyncIterator[Client]:
    """Speak with the token of a syncer, when the API server knows its rights and heeds the policies."""
    async with granted(kubeconfig, token, namespace=namespace) as client:
        await _in_force(client, namespace)
        yield client


@asynccontextmanager
async def granted(kubeconfig: Path, token: str, *, namespace: str) -> AsyncIterator[Client]:
    """Speak with the token of an account that may read Pods, when the API server knows its rights."""
    reach = access.from_kubeconfig(kubeconfig)
    async with Client(replace(reach, credentials=Token(token))) as client:
        await _granted(client, namespace)
        yield client


async def _granted(syncer: Client, namespace: str) -> None:
    """Wait until the API server knows the rights of the account."""
    async with asyncio.timeout(120):
        while True:
            try:
                await syncer.request("GET", f"/api/v1/namespaces/{namespace}/pods")
            except (Forbidden, NotFound):
                await asyncio.sleep(0.05)
            else:
                return
