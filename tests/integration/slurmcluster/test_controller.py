"""The SlurmCluster controller on a real API server. No kubelet is there: how a trial went is said by the tests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
from msgspec import json
from tests import crds
from tests.conftest import Kube
from tests.integration.nodeset.stage import Operator, eventually

from sunk.kube.api.client import Scope
from sunk.kube.api.patch import Merge
from sunk.kube.core import CONFIG_MAPS, PODS, Pod
from sunk.kube.errors import NotFound
from sunk.model import names
from sunk.model.cluster.kind import SLURMCLUSTER
from sunk.objects.slurmclusters import SLURMCLUSTERS, SlurmCluster
from sunk.operator.slurmcluster import controller

NAME = "slurm"
CONF = "slurm-slurm-conf"
FILES = "own"
SCRIPT = "job_submit.lua"
SPEC = {
    "accounting": {"enabled": False},
    "slurmConfig": {"slurmCtld": {"etcConfigMap": FILES}, "extraConfig": "JobSubmitPlugins=lua\n"},
}


class Cluster:
    """One SlurmCluster, with the hands of a person, of the syncer and of a kubelet on it."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    async def make(self, **spec: Any) -> None:
        kind = {"apiVersion": SLURMCLUSTER.api_version, "kind": SLURMCLUSTER.name}
        body = kind | {"metadata": {"name": NAME}, "spec": spec}
        await self._kube.client.create(SLURMCLUSTERS, body, namespace=self._kube.namespace)

    async def read(self) -> SlurmCluster:
        return await self._kube.client.get(SLURMCLUSTERS, NAME, namespace=self._kube.namespace)

    async def annotate(self, key: str, value: str) -> None:
        await self._patch({"metadata": {"annotations": {key: value}}})

    async def says(self, **status: Any) -> None:
        """Write into the status, as the syncer does."""
        await self._patch({"status": status}, subresource="status")

    async def _patch(self, body: dict[str, Any], **where: str) -> None:
        await self._kube.client.patch(SLURMCLUSTERS, NAME, Merge(body), namespace=self._kube.namespace, **where)

    async def configured(self, reason: str) -> str:
        """Wait until the condition has this reason; give its message."""

        def said(found: SlurmCluster) -> list[str]:
            return [
                one.message for one in found.status.conditions if (one.type, one.reason) == ("ConfigApplied", reason)
            ]

        return said(await eventually(self.read, lambda found: bool(said(found))))[0]

    async def write_files(self, script: str) -> None:
        """Edit the ConfigMap of people's own files."""
        patch = Merge({"data": {SCRIPT: script}})
        await self._kube.client.patch(CONFIG_MAPS, FILES, patch, namespace=self._kube.namespace)

    async def make_files(self, script: str) -> None:
        body = {"metadata": {"name": FILES}, "data": {SCRIPT: script}}
        await self._kube.client.create(CONFIG_MAPS, body, namespace=self._kube.namespace)

    async def live(self) -> dict[str, str]:
        """The files that Slurm reads; none before the first trial."""
        with suppress(NotFound):
            return (await self._kube.client.get(CONFIG_MAPS, CONF, namespace=self._kube.namespace)).data
        return {}

    async def trials(self) -> list[Pod]:
        found = await self._kube.client.list(PODS, Scope(namespace=self._kube.namespace, labels=names.PROBE))
        return [pod for pod in found.items if pod.status.phase == "Pending"]

    async def tried(self, *, words: str = "") -> str:
        """Wait for a trial, and have it end, in a refusal if there are words; give the script that it was of."""
        (pod, *_) = await eventually(self.trials, bool)
        over = {"exitCode": int(bool(words)), "message": words, "finishedAt": "2026-01-01T00:00:00Z"}
        container = {"name": "slurm", "image": "", "imageID": "", "restartCount": 0, "ready": False}
        told: dict[str, Any] = {"phase": "Failed" if words else "Succeeded"}
        told |= {"containerStatuses": [container | {"state": {"terminated": over}}]}
        name, where = pod.metadata.name, self._kube.namespace
        script = await self._candidate(name)
        await self._kube.client.patch(PODS, name, Merge({"status": told}), namespace=where, subresource="status")
        return script

    async def _candidate(self, pod: str) -> str:
        read = await self._kube.client.request("GET", f"/api/v1/namespaces/{self._kube.namespace}/pods/{pod}")
        body = json.decode(read)
        maps = [one["configMap"]["name"] for one in body["spec"]["volumes"] if "configMap" in one]
        found = [await self._kube.client.get(CONFIG_MAPS, one, namespace=self._kube.namespace) for one in maps]
        return next(one.data[SCRIPT] for one in found if SCRIPT in one.data)


@pytest_asyncio.fixture
async def cluster(kube: Kube, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    """With an operator that soon looks again at what no watch tells it."""
    monkeypatch.setattr(controller, "LATER", 0.5)
    await crds.install(kube.cluster)
    async with Operator(kube, builds=(controller.slurmclusters,)):
        yield Cluster(kube)


async def test_a_bad_edit_of_peoples_own_files_is_refused_and_the_last_ones_stay(cluster: Cluster) -> None:
    await cluster.make_files("first")
    await cluster.make(**SPEC)
    assert await cluster.tried() == "first"
    good = await eventually(cluster.live, bool)
    assert good[SCRIPT] == "first"

    await cluster.write_files("bad")
    assert await cluster.tried(words="job_submit.lua:1: unexpected symbol") == "bad"
    said = await cluster.configured("BadConfiguration")
    assert said == "keeping the previous configuration: slurmConfig, compute: job_submit.lua:1: unexpected symbol"
    await asyncio.sleep(2)
    assert await cluster.live() == good
    assert not await cluster.trials(), "nothing but another edit could help"

    await cluster.write_files("second")
    assert await cluster.tried() == "second"
    await eventually(cluster.live, lambda files: files[SCRIPT] == "second")
    await cluster.configured("Reading")


async def test_files_that_are_no_text_or_are_gone_are_refused_and_the_last_ones_stay(
    kube: Kube, cluster: Cluster
) -> None:
    await cluster.make_files("first")
    await cluster.make(**SPEC)
    await cluster.tried()
    good = await eventually(cluster.live, bool)
    patch = Merge({"binaryData": {"plugin.so": "/w=="}})
    await kube.client.patch(CONFIG_MAPS, FILES, patch, namespace=kube.namespace)
    await eventually(
        lambda: cluster.configured("Refused"), lambda said: "plugin.so of ConfigMap own is not text" in said
    )
    await kube.client.delete(CONFIG_MAPS, FILES, namespace=kube.namespace)
    await eventually(
        lambda: cluster.configured("Refused"),
        lambda said: f"ConfigMap {kube.namespace}/own does not exist. Create it" in said,
    )
    assert await cluster.live() == good


async def test_a_word_that_accepts_a_suspicion_is_taken_off_once_the_syncer_has_answered_it(cluster: Cluster) -> None:
    await cluster.make(accounting={"enabled": False})
    await cluster.annotate(names.ACCEPT_SUSPICION, " 0a1b2c3d\n")
    await cluster.annotate("example.com/note", "stays")
    await cluster.says(suspicionAnswered="ffffffff")
    await asyncio.sleep(2)
    assert names.ACCEPT_SUSPICION in (await cluster.read()).metadata.annotations, "the answer was to another word"
    await cluster.says(suspicionAnswered="0a1b2c3d")
    found = await eventually(cluster.read, lambda one: names.ACCEPT_SUSPICION not in one.metadata.annotations)
    assert found.metadata.annotations["example.com/note"] == "stays"
    assert found.status.suspicion_answered == "0a1b2c3d", "it is the syncer's to write"
    await cluster.annotate(names.ACCEPT_SUSPICION, "another")
    await asyncio.sleep(1)
    assert (await cluster.read()).metadata.annotations[names.ACCEPT_SUSPICION] == "another"


async def test_a_certificate_is_renewed_though_the_spec_is_refused(kube: Kube, cluster: Cluster) -> None:
    where, client = kube.namespace, kube.client
    await cluster.make_files("first")
    await cluster.make(**SPEC)
    await cluster.tried()

    async def served() -> str:
        with suppress(NotFound):
            read = await client.request("GET", f"/apis/apps/v1/namespaces/{where}/deployments/slurm-syncer")
            volumes = json.decode(read)["spec"]["template"]["spec"]["volumes"]
            return str(next(one["secret"]["secretName"] for one in volumes if one["name"] == "hooks-tls"))
        return ""

    async def certificates(note: str = names.CERTIFICATE_EXPIRES) -> set[str]:
        found = await client.list(CONFIG_MAPS, Scope(namespace=where))
        return {one.metadata.name for one in found.items if note in one.metadata.annotations}

    async def published() -> set[str]:
        return await certificates(names.CERTIFICATE_PUBLISHED)

    first = await eventually(served, bool)
    assert await certificates() == {first}
    await client.delete(CONFIG_MAPS, FILES, namespace=where)
    await cluster.configured("Refused")
    long_ago = datetime.now(UTC) - timedelta(minutes=10)
    dates = {names.CERTIFICATE_EXPIRES: datetime.now(UTC) + timedelta(days=1), names.CERTIFICATE_PUBLISHED: long_ago}
    await annotate(kube, first, dates)
    # Before that the operator has yet to write its own date, over that of the test.
    (second,) = await eventually(published, lambda found: len(found) > 1) - {first}
    await asyncio.sleep(1)
    assert await served() == first
    await annotate(kube, second, {names.CERTIFICATE_PUBLISHED: long_ago})
    await eventually(served, lambda name: name == second)
    # What is in force is not pruned, and the old one is believed until it has expired.
    await cluster.make_files("second")
    await cluster.tried()
    await eventually(cluster.live, lambda files: files[SCRIPT] == "second")
    assert await certificates() == {first, second}
    assert await served() == second


async def annotate(kube: Kube, name: str, dates: dict[str, datetime]) -> None:
    notes = {key: moment.isoformat() for key, moment in dates.items()}
    patch = Merge({"metadata": {"annotations": notes}})
    await kube.client.patch(CONFIG_MAPS, name, patch, namespace=kube.namespace)
