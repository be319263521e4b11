"""The hook API of a real syncer, called as prologs call it: with a token of the Pod, over TLS."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest_asyncio
from tests.integration.syncer.stage import CLUSTER, Stage, on_stage

from sunk.kube.api.patch import Merge
from sunk.kube.core import NODES, PODS, condition
from sunk.kube.resource import Record, Resource
from sunk.local.slurm.component import Component
from sunk.local.slurm.running import PYTHON
from sunk.model import names
from sunk.model.contract import hooks, lock
from sunk.model.contract.lock import JobRun, LockRequest
from sunk.model.contract.syncerwrites import ACCOUNT_SUFFIX
from sunk.operator.slurmcluster.rollout.issuing import issue

pytestmark = on_stage
FOLDER = "/etc/kube"  # of the syncer's machine: it is there for its kubeconfig
SYNCER = ("--hooks-port", "8443", "--hooks-folder", FOLDER, "--hooks-timeout", "60", "--node-permissions")
RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLES = Resource(Record, group=RBAC, version="v1", plural="clusterroles", namespaced=False)
CLUSTER_BINDINGS = Resource(Record, group=RBAC, version="v1", plural="clusterrolebindings", namespaced=False)

_CALL = """
import http.client, json, ssl, sys, urllib.request, urllib.error
method, path, token, body = json.loads(sys.stdin.read())
context = ssl.create_default_context(cafile="/etc/kube/ca.crt")
request = urllib.request.Request("https://localhost:8443/v1/nodes/" + path, method=method, data=body.encode() or None)
if token: request.add_header("Authorization", "Bearer " + token)
try:
    answer = urllib.request.urlopen(request, timeout=90, context=context)
    print(json.dumps([answer.status, json.loads(answer.read())]))
except urllib.error.HTTPError as refused:
    print(json.dumps([refused.code, json.loads(refused.read() or b"null")]))
except (OSError, http.client.HTTPException) as nobody:
    print(json.dumps([0, str(nobody)]))
"""


class Api:
    """The hook API as seen from the machine that it is on."""

    def __init__(self, stage: Stage, *, on: str = "syncer") -> None:
        self.stage = stage
        self.on = on

    async def certify(self) -> None:
        """Give it a certificate, and wait until it serves."""
        made = issue(("localhost",), now=datetime.now(UTC))
        folder = self.stage.slurm.layout.folder / f"ours-{self.on}" / "kube"
        for name, text in (("ca.crt", made.ca), (hooks.KEY, made.key), (hooks.CERTIFICATE, made.certificate)):
            (folder / name).write_text(text)
            (folder / name).chmod(0o644)
        await self.stage.eventually(lambda: self.call("GET", "x/hello"), lambda found: found[0] == 401)

    async def token(self, name: str) -> str:
        """As the kubelet gets it: bound to the Pod, for this cluster's syncer."""
        pod = await self.stage.client.get(PODS, name, namespace=self.stage.namespace)
        reference = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod.metadata.uid}
        spec = {
            "audiences": [hooks.audience(self.stage.namespace, CLUSTER)],
            "boundObjectRef": reference,
            "expirationSeconds": 3600,
        }
        path = f"/api/v1/namespaces/{self.stage.namespace}/serviceaccounts/default/token"
        answer = json.loads(await self.stage.client.post(path, {"spec": spec}))
        return str(answer["status"]["token"])

    async def call(self, method: str, path: str, *, token: str = "", body: str = "") -> tuple[int, Any]:
        said = json.dumps([method, path, token, body])
        answer = await asyncio.to_thread(
            self.stage.slurm.run, PYTHON, "-c", _CALL, on=self.on, stdin=said, timeout=120.0
        )
        status, found = json.loads(answer)
        return status, found

    async def pre_hook(self, name: str, job: int, **asked: Any) -> tuple[int, Any]:
        body = json.dumps({"job": job, "timeout": 50} | asked)
        return await self.call("POST", f"{name}/pre-hook", token=await self.token(name), body=body)

    async def hello(self, name: str) -> int:
        return (await self.call("GET", f"{name}/hello", token=await self.token(name)))[0]

    async def answer(self, name: str, state: str, *, number: int | None = None) -> None:
        """Copy the state of the lock to a Pod, as the Pod controller does."""
        pod = await self.stage.pod(name)
        asked = lock.read(pod.metadata.annotations.get(names.LOCK_REQUEST))
        assert asked is not None
        given = {names.LOCK: state, names.LOCK_NUMBER: str(number or asked.number), names.LOCK_OWNER: pod.metadata.uid}
        await self.stage.mark(name, given)

    async def asks(self, name: str, job: int) -> LockRequest:
        def named(pod: Any) -> bool:
            found = lock.read(pod.metadata.annotations.get(names.LOCK_REQUEST))
            return found is not None and JobRun(job) in found.runs

        pod = await self.stage.pod_when(name, named)
        found = lock.read(pod.metadata.annotations.get(names.LOCK_REQUEST))
        assert found is not None
        return found


def is_strict(pod: Any) -> bool:
    """Which only a call that waits can have made it: the job itself is in the request without one."""
    found = lock.read(pod.metadata.annotations.get(names.LOCK_REQUEST))
    return found is not None and found.strict


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(stage: Stage) -> AsyncIterator[Api]:
    """With a certificate, which comes after the syncer has started."""
    found = Api(stage)
    await found.certify()
    yield found


async def test_a_prolog_is_answered_when_its_pod_says_that_the_node_is_locked(stage: Stage, served: Api) -> None:
    await stage.join("a1")
    job = await stage.sbatch("a1")
    calling = asyncio.create_task(served.pre_hook("a1", job))
    request = await served.asks("a1", job)
    await served.answer("a1", "pending")
    await asyncio.sleep(1)
    assert not calling.done()
    await served.answer("a1", "locked")
    assert await calling == (200, {"result": "locked"})
    assert await served.pre_hook("a1", job) == (200, {"result": "locked"}), "who asks again finds the same request"
    assert await served.asks("a1", job) == request
    strict = asyncio.create_task(served.pre_hook("a1", job, strict=True))
    await stage.pod_when("a1", lambda pod: '"strict":true' in pod.metadata.annotations[names.LOCK_REQUEST])
    await served.answer("a1", "locked")
    await asyncio.sleep(1)
    assert not strict.done()
    await served.answer("a1", "locked_strict")
    assert await strict == (200, {"result": "locked"})
    await stage.scancel(job)


async def test_a_job_that_is_cancelled_or_unknown_needs_no_lock(stage: Stage, served: Api) -> None:
    """L4."""
    await stage.join("b1")
    job = await stage.sbatch("b1")
    calling = asyncio.create_task(served.pre_hook("b1", job))
    await served.asks("b1", job)
    await stage.scancel(job)
    assert await calling == (200, {"result": "not-needed"})
    assert await served.pre_hook("b1", 999_999) == (200, {"result": "not-needed"})
    await stage.condition("b1", names.SLURM_RUNNING, "False", reason="Idle")


async def test_a_job_that_runs_elsewhere_locks_nothing_here(stage: Stage, served: Api) -> None:
    await stage.join("c1")
    await stage.join("c2")
    job = await stage.sbatch("c1")
    await served.asks("c1", job)
    before = await stage.pod("c2")
    assert await served.pre_hook("c2", job) == (200, {"result": "not-needed"})
    after = await stage.pod("c2")
    assert after.metadata.annotations.get(names.LOCK_REQUEST) == before.metadata.annotations.get(names.LOCK_REQUEST)
    await stage.scancel(job)


async def test_the_time_is_over(stage: Stage, served: Api) -> None:
    await stage.join("d1")
    job = await stage.sbatch("d1")
    await served.asks("d1", job)
    status, said = await served.pre_hook("d1", job, timeout=2)
    assert status == 503, "nobody has taken notice"
    assert "operator" in said["message"]
    await served.answer("d1", "pending")
    status, said = await served.pre_hook("d1", job, timeout=10)
    assert (status, said["result"], said["lock"]) == (408, "timeout", "pending")
    await stage.scancel(job)


async def test_a_syncer_that_dies_while_prologs_wait_answers_when_it_is_back(stage: Stage, served: Api) -> None:
    await stage.join("e1")
    job = await stage.sbatch("e1")
    calling = asyncio.create_task(served.pre_hook("e1", job, strict=True))
    await stage.pod_when("e1", is_strict)
    request = await served.asks("e1", job)
    await stage.kill_syncer()
    assert (await calling)[0] == 0
    await served.answer("e1", "locked_strict")

    async def again() -> tuple[int, Any]:
        return await served.pre_hook("e1", job, strict=True)

    await stage.eventually(again, lambda found: found == (200, {"result": "locked"}))
    assert await served.asks("e1", job) == request
    await stage.scancel(job)


async def test_a_standby_answers_by_what_the_leader_writes(stage: Stage, served: Api) -> None:
    """G2."""
    await stage.join("k1")
    who = ("--cluster", CLUSTER, "--namespace", stage.namespace, "--identity", "standby-on-stage")
    rights = stage.slurm.layout.folder / "ours-syncer" / "kube" / "config"
    standby = await asyncio.to_thread(
        Component, stage.slurm, "standby", api=stage.api, command=("sunk", "syncer", *who, *SYNCER), kubeconfig=rights
    )
    await asyncio.to_thread(standby.start)
    try:
        other = Api(stage, on="standby")
        await other.certify()
        job = await stage.sbatch("k1")
        calling = asyncio.create_task(other.pre_hook("k1", job))
        await served.asks("k1", job)
        await served.answer("k1", "locked")
        assert await calling == (200, {"result": "locked"})
        assert await other.hello("k1") == 503, "only the leader lifts drains"
        await stage.scancel(job)
    finally:
        await asyncio.to_thread(standby.kill)


async def test_a_pod_that_is_replaced_while_it_waits_is_told(stage: Stage, served: Api) -> None:
    await stage.join("f1")
    job = await stage.sbatch("f1")
    calling = asyncio.create_task(served.pre_hook("f1", job, strict=True))
    await stage.pod_when("f1", is_strict)
    await stage.delete_pod("f1")
    assert (await calling)[0] == 404
    await stage.scancel(job)


async def test_who_may_call(stage: Stage, served: Api) -> None:
    await stage.join("g1")
    await stage.join("g2")
    mine, other = await served.token("g1"), await served.token("g2")
    body = '{"job":1,"timeout":1}'
    assert (await served.call("POST", "g1/pre-hook", body=body))[0] == 401
    assert (await served.call("POST", "g1/pre-hook", token="x", body=body))[0] == 401  # noqa: S106
    assert (await served.call("POST", "g1/pre-hook", token=other, body=body))[0] == 403
    assert (await served.call("POST", "g1/reboot", token=other))[0] == 403
    assert (await served.call("POST", "g1/pre-hook", token=mine, body="{}"))[0] == 400
    stranger = {"metadata": {"name": "stranger"}, "spec": {"containers": [{"name": "x", "image": "none"}]}}
    await stage.client.create(PODS, stranger, namespace=stage.namespace)
    token = await served.token("stranger")
    assert (await served.call("GET", "stranger/hello", token=token))[0] == 404, "no compute Pod of this cluster"


async def test_a_node_that_did_not_reach_the_syncer_is_undrained_when_its_pod_calls(stage: Stage, served: Api) -> None:
    """L8."""
    await stage.join("h1")
    await stage.scontrol("update", "nodename=h1", "state=drain", f"reason={hooks.UNREACHED}")
    await stage.condition("h1", names.SLURM_DRAIN, "True", reason=names.FROM_KUBERNETES, message=hooks.UNREACHED)
    await asyncio.sleep(3)
    assert (await stage.seen("h1")).drained
    assert await served.hello("h1") == 200
    assert not (await stage.seen("h1")).drained, "the answer means that the drain is off"
    assert await served.hello("h1") == 200
    await stage.scontrol("update", "nodename=h1", "state=drain", "reason=bob: bad fan")
    assert await served.hello("h1") == 200
    assert (await stage.seen("h1")).reason == "bob: bad fan"


async def test_a_drain_of_a_prolog_waits_behind_a_cordon_and_leaves_it(stage: Stage, served: Api) -> None:
    await stage.join("i1")
    await stage.scontrol("update", "nodename=i1", "state=drain", f"reason={hooks.UNREACHED}")
    await stage.condition("i1", names.SLURM_DRAIN, "True", message=hooks.UNREACHED)
    await stage.mark("i1", {names.CORDON: "disk"})
    await stage.drained("i1", f"{hooks.UNREACHED}: cordon: disk")
    assert await served.hello("i1") == 200
    await stage.drained("i1", "k8s: cordon: disk")


async def test_a_reboot_is_asked_for_by_a_condition_of_the_node_if_the_api_server_allows_it(
    stage: Stage, served: Api
) -> None:
    await stage.join("j1")
    node, token = stage.node_of["j1"], await served.token("j1")
    status, refused = await served.call("POST", "j1/reboot", token=token)
    assert (status, "nodePermissions" in refused["message"]) == (403, True)
    labels = {names.NAMESPACE: stage.namespace, names.CLUSTER: CLUSTER}
    await stage.client.patch(NODES, node, Merge({"metadata": {"labels": labels}}))
    async with _allowed(stage):

        async def reboot() -> tuple[int, Any]:
            return await served.call("POST", "j1/reboot", token=token)

        found = await stage.eventually(reboot, lambda found: found[0] == 200)
        assert found == (200, {"result": "requested", "node": node})
        assert (await reboot())[0] == 200, "to say it twice is to say it once"
    said = condition((await stage.client.get(NODES, node)).status.conditions, "PhaseState")
    assert said is not None
    assert (said.status, said.reason) == ("True", "production-powerreset")
    assert f"j1 (Pod {stage.namespace}/j1)" in said.message


@asynccontextmanager
async def _allowed(stage: Stage) -> AsyncIterator[None]:
    """As the chart `sunk` does for clusters in its `nodePermissions`."""
    name = f"{stage.namespace}-syncer-nodes"
    rule = {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]}
    await stage.client.create(CLUSTER_ROLES, {"metadata": {"name": name}, "rules": [rule]})
    subject = {"kind": "ServiceAccount", "namespace": stage.namespace, "name": f"{CLUSTER}{ACCOUNT_SUFFIX}"}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    await stage.client.create(CLUSTER_BINDINGS, {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})
    yield
    for resource in (CLUSTER_BINDINGS, CLUSTER_ROLES):
        await stage.client.delete(resource, name)
