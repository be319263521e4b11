"""Accounts of users, from the rules of a SlurmCluster to a real slurmdbd."""

import asyncio
from typing import Any

import pytest
from tests.integration.syncer.stage import CLUSTER, Stage, on_stage
from tests.versions import BOTH

from sunk.kube.api.patch import Merge
from sunk.kube.core import CONFIG_MAPS
from sunk.objects.slurmclusters import SLURMCLUSTERS

pytestmark = [on_stage, pytest.mark.timeout(600)]
SLURM = {"accounting": True}
VERSIONS = BOTH
USERS = "alice:*:1001:1001::/home/alice:/bin/sh\nbob:*:1002:1002::/home/bob:/bin/sh\n"
PATIENCE = 150.0
"""A new process does not know for how long users have been there, and lets them wait."""


async def make(stage: Stage, suffix: str, data: dict[str, str] | None = None) -> None:
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{CLUSTER}-{suffix}"},
        "data": data or {},
    }
    await stage.client.create(CONFIG_MAPS, body, namespace=stage.namespace)


async def rule(stage: Stage, *rules: dict[str, Any]) -> None:
    patch = Merge({"spec": {"accounting": {"userAccounts": {"rules": list(rules)}}}})
    await stage.client.patch(SLURMCLUSTERS, CLUSTER, patch, namespace=stage.namespace)


async def group(stage: Stage, *members: str) -> None:
    patch = Merge({"data": {"group": f"ml:*:5000:{','.join(members)}\n"}})
    await stage.client.patch(CONFIG_MAPS, f"{CLUSTER}-users", patch, namespace=stage.namespace)


async def sacctmgr(stage: Stage, *words: str) -> str:
    return await asyncio.to_thread(stage.slurm.run, "sacctmgr", "-i", *words)


async def associations(stage: Stage) -> dict[tuple[str, str], tuple[str, str]]:
    """QOS and comment, by user and account."""
    words = ("-nP", "show", "assoc", "format=user,account,qos,comment")
    rows = [line.split("|") for line in (await sacctmgr(stage, *words)).splitlines()]
    return {(row[0], row[1]): (row[2], row[3]) for row in rows if row[0] not in {"", "root"}}


async def until(stage: Stage, wanted: set[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, str]]:
    return await stage.eventually(lambda: associations(stage), lambda found: found.keys() == wanted, seconds=PATIENCE)


async def noted(stage: Stage) -> dict[str, str]:
    return (await stage.client.get(CONFIG_MAPS, f"{CLUSTER}-user-accounts", namespace=stage.namespace)).data


LAB = {"account": "lab", "group": "ml", "qos": ["normal"]}
ALL = {"account": "guests"}


async def test_a_life_with_accounts(stage: Stage) -> None:
    """In one piece: each step begins where the last one ended."""
    await make(stage, "users", {"passwd": USERS, "group": "ml:*:5000:alice\n"})
    await make(stage, "user-accounts")
    await stage.join("a1")

    # The first job of somebody who was never added by hand.
    await rule(stage, LAB, ALL)
    found = await until(stage, {("alice", "lab"), ("alice", "guests"), ("bob", "guests")})
    assert found["alice", "lab"] == ("normal", "sunk qos=normal")
    assert found["bob", "guests"][1] == "sunk"
    assert await noted(stage) == {"lab": "alice", "guests": "alice bob"}
    job = await stage.sbatch("a1")
    await stage.accounted(job, "RUNNING")

    # A QOS that does not exist is said, and the rest goes on.
    await rule(stage, LAB | {"qos": ["normal", "gold"]}, ALL)
    await stage.eventually(stage.report, lambda report: "no QOS gold" in str(report))
    await sacctmgr(stage, "add", "qos", "gold")
    await rule(stage, LAB | {"qos": ["gold", "normal"]}, ALL)
    await stage.eventually(
        lambda: associations(stage), lambda rows: rows["alice", "lab"][1] == "sunk qos=gold,normal", seconds=PATIENCE
    )

    # Who leaves the group loses it when the job has ended.
    await group(stage, "bob")
    await until(stage, {("alice", "lab"), ("alice", "guests"), ("bob", "guests"), ("bob", "lab")})
    await stage.scancel(job)
    await stage.accounted(job, "CANCELLED")
    await rule(stage, ALL, LAB | {"qos": ["gold", "normal"]})
    await until(stage, {("alice", "guests"), ("bob", "guests"), ("bob", "lab")})

    # What an administrator removes or changes stays so, also for the next process.
    await sacctmgr(stage, "remove", "user", "bob", "where", "account=lab")
    await sacctmgr(stage, "modify", "user", "alice", "where", "account=guests", "set", "maxjobs=7")
    await stage.kill_syncer()
    await rule(stage, LAB)
    await until(stage, {("alice", "guests")})
    await rule(stage, LAB, ALL)
    await until(stage, {("alice", "guests"), ("bob", "guests")})
    await asyncio.sleep(10)
    await until(stage, {("alice", "guests"), ("bob", "guests")})
    report = await stage.report()
    assert report is not None
    assert report.stuck == ()

    # One who comes back is a member again.
    await group(stage)
    await stage.eventually(lambda: noted(stage), lambda data: "lab" not in data, seconds=PATIENCE)
    await group(stage, "bob")
    await until(stage, {("alice", "guests"), ("bob", "guests"), ("bob", "lab")})

    # Without rules nothing is touched.
    await rule(stage)
    await group(stage)
    await asyncio.sleep(10)
    await until(stage, {("alice", "guests"), ("bob", "guests"), ("bob", "lab")})
