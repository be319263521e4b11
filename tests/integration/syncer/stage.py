"""The stage for tests of the syncer: a real API server, a real Slurm, and the syncer itself as a process between them.

```python
from tests.integration.syncer.stage import Stage, on_stage

pytestmark = on_stage                    # the tests of a file share one stage, and its event loop
SLURM = {"config": {"ReturnToService": 0}}       # optional: what `sunk.local.slurm.cluster` is to be given
SYNCER = ("--wave-share", "0.5")                 # optional: further words for `sunk syncer`
VERSIONS = BOTH                                  # optional: of Slurm, one after the other

async def test_a_cordon_drains(stage: Stage) -> None:
    await stage.join("a1")                               # entry in a slice, Pod on a Node of its own, and a slurmd
    await stage.mark("a1", {names.CORDON: "disk"})       # annotations of the Pod; None takes one off
    await stage.drained("a1", "k8s: cordon: disk")       # waits
    await stage.mark("a1", {names.CORDON: None})
    await stage.free("a1")                               # not drained
    await stage.condition("a1", names.SLURM_DRAIN, "False")
```

Each test takes node names of its own. What else there is:

- `join(name, slurmd=, pod=, ready=, state=, annotations=, line=, wait=)`: leave parts of a member out, or let it begin
  otherwise; `wait=False` returns before the syncer has seen it. `leave(name)`, `park(name)`, `drop(name)` change the
  entry; `entry(name)` reads it, `slice_status()` what the syncer has written.
- Pod: `pod(name)`, `mark`, `ready(name, is_so=False)`, `say(name, "HPCVerification", "True", lastProbeTime=…)`,
  `delete_pod(name)`, `make_pod(name)`, `pod_when(name, holds)`, `condition(name, kind, status)`, `label(name, key, value)`;
  `async with stage.followed(name) as versions:` gathers all versions of it; `await versions.up_to_now()` gives them.
- Slurm: `scontrol(...)`, `sbatch(node, script=)` gives the job's number, `scancel(job)`, `seen(name)` and
  `slurm_when(name, holds)` give a `Seen` (state words, reason, features, extra), `slurm` is the whole cluster:
  `slurm.kill("a1")` kills that slurmd's machine.
- Faults: `kill_syncer()` (kill -9 and a new start), `syncer.kill()`, `syncer.start()`; `async with
  stage.without_slurmctld():`; `async with stage.operator(nodesets, …):` runs parts of the operator in this process,
  which see this namespace only.
- `report()`, `held(text)`, `not_held()`, `accounted(job, state)`, `events(reason)`, `syncer.log()`, `syncer_says(text)`; a test that fails shows the end of the syncer's log.

The syncer has the account that the operator makes for it, and the API server the policies of the chart: a write that one of
them refuses fails here. Nodes are real slurmd: about a second each. The fake kubelet runs in a process of its own; see its page for what
annotations make it do.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec import to_builtins
from tests.integration.syncer.seen import Seen, read

from sunk.kube.api.client import Client, Deletion, Preconditions, Scope
from sunk.kube.api.patch import Merge, Strategic
from sunk.kube.auth import access
from sunk.kube.cache.collection import Collection
from sunk.kube.cache.store import Stale, number
from sunk.kube.control.events import Recorder
from sunk.kube.core import NODES, PODS, Node
from sunk.kube.errors import Conflict, KubeError, NotFound
from sunk.kube.resource import Record, Resource
from sunk.kube.tasks import running
from sunk.local.fakekubelet import Settings, spawned
from sunk.local.fakekubelet.behaviour import key as steering_key
from sunk.local.kubernetes.cluster import LocalCluster
from sunk.local.slurm import Node as SlurmNode, Slurm
from sunk.local.slurm.component import Component
from sunk.local.slurm.configuration import CONTROLLER
from sunk.model import names
from sunk.model.cluster.kind import SLURMCLUSTER
from sunk.model.contract.report import Report
from sunk.model.nodeset import NODESET
from sunk.model.nodeslice import NODESLICE, Entry, NodeSliceStatus, State
from sunk.objects.computepods import restart_asked
from sunk.objects.nodesets import NODESETS, NODESLICES, owned_by
from sunk.objects.slurmclusters import SLURMCLUSTERS, report
from sunk.service.part import Build, Setting
from sunk.syncer.pods import COMPUTE_PODS, ComputePod, condition, ready

on_stage = pytest.mark.asyncio(loop_scope="module")

CLUSTER = "stage"
SET = "stage"
SLICE = "stage-0"
FLEET = 24
ALICE = 1001
PATIENCE = 90.0
"""Seconds. On a machine with much to do each of those who take part may stand still for ten."""
_READY = steering_key("ready")
T = TypeVar("T")
CaughtUp = Callable[[], Awaitable[None]]


class Event(Record, frozen=True, gc=False):
    """An Event as people see it."""

    reason: str = ""
    note: str = ""
    type: str = ""


EVENTS = Resource(Event, group="events.k8s.io", version="v1", plural="events")


@asynccontextmanager
async def staged(  # noqa: PLR0913 - each stands for itself
    client: Client, namespace: str, *, api: LocalCluster, slurm: Slurm, kubeconfig: Path, words: Sequence[str] = ()
) -> AsyncIterator["Stage"]:
    """Set the stage, with the syncer running; its rights are those of the kubeconfig."""
    # With a name that stays, as that of a Pod does, a syncer that was killed leads again at once.
    who = ("--cluster", CLUSTER, "--namespace", namespace, "--identity", "syncer-on-stage")
    command = ("sunk", "syncer", *who, "--log-level", "debug", *words)
    syncer = await asyncio.to_thread(Component, slurm, "syncer", api=api, command=command, kubeconfig=kubeconfig)
    fleet = Settings(nodes=FLEET, fleet=namespace)
    async with spawned(fleet, kubeconfig=api.kubeconfig):
        stage = Stage(client, namespace, api=api, slurm=slurm, syncer=syncer)
        await stage.set_up(fleet)
        await asyncio.to_thread(syncer.start)
        async with running({"restarts": stage.restarts()}):
            yield stage
        await stage.clear()


class Stage:
    def __init__(self, client: Client, namespace: str, *, api: LocalCluster, slurm: Slurm, syncer: Component) -> None:
        self.client = client
        self.namespace = namespace
        self.cluster = CLUSTER
        self.api = api
        self.slurm = slurm
        self.syncer = syncer
        self._free: Iterable[str] = iter(())
        self.node_of: dict[str, str] = {}
        """The Kubernetes Node of each member."""
        self._entries: dict[str, Entry] = {}
        self._writing = asyncio.Lock()

    async def set_up(self, fleet: Settings) -> None:
        self._free = (fleet.name_of(number) for number in itertools.count())
        kind = {"apiVersion": SLURMCLUSTER.api_version, "kind": SLURMCLUSTER.name}
        await self.client.create(
            SLURMCLUSTERS, kind | {"metadata": {"name": CLUSTER}, "spec": {}}, namespace=self.namespace
        )
        slurmd = {"name": names.SLURMD, "image": "none"}
        spec = {"cluster": CLUSTER, "template": {"spec": {"containers": [slurmd]}}}
        kind = {"apiVersion": NODESET.api_version, "kind": NODESET.name}
        made = await self.client.create(
            NODESETS, kind | {"metadata": {"name": SET}, "spec": spec}, namespace=self.namespace
        )
        body = {
            "apiVersion": NODESLICE.api_version,
            "kind": NODESLICE.name,
            "metadata": {"name": SLICE, "labels": {names.CLUSTER: CLUSTER}},
            "spec": {"nodeSet": SET, "nodeSetUid": made.metadata.uid, "cluster": CLUSTER, "entries": []},
        }
        await self.client.create(NODESLICES, body, namespace=self.namespace)
        await self._write_entries()

    async def clear(self) -> None:
        """Let all Pods go at once: a namespace that waits for them costs much CPU."""
        for pod in (await self.client.list(PODS, Scope(namespace=self.namespace))).items:
            with suppress(NotFound):
                await self.client.delete(
                    PODS, pod.metadata.name, Deletion(grace_period_seconds=0), namespace=self.namespace
                )

    async def restarts(self) -> None:
        """Delete Pods that the syncer asks to have recreated, as the NodeSet controller does."""
        while True:
            with suppress(KubeError):  # an API server that is late once must not end the tests of a file
                await self._restart()
            await asyncio.sleep(0.2)

    async def _restart(self) -> None:
        for pod in (await self.client.list(PODS, Scope(namespace=self.namespace))).items:
            if restart_asked(pod, now=self.client.clock.now()) and pod.metadata.deletion_timestamp is None:
                at = Preconditions(uid=pod.metadata.uid)
                with suppress(NotFound, Conflict):
                    await self.client.delete(
                        PODS, pod.metadata.name, Deletion(preconditions=at), namespace=self.namespace
                    )

    # Members

    async def join(  # noqa: PLR0913 - each stands for itself and has a default
        self,
        name: str,
        *,
        slurmd: bool = True,
        pod: bool = True,
        ready: bool = True,
        state: State = "joined",
        annotations: Mapping[str, str] | None = None,
        line: SlurmNode | None = None,
        wait: bool = True,
    ) -> None:
        """Make a member, and wait until the syncer has said something about it."""
        if slurmd:
            await asyncio.to_thread(self.slurm.add, line or name)
        if pod:
            await self.make_pod(name, ready=ready, annotations=annotations)
        await self._enter(name, state=state)
        if pod and wait:
            await self.pod_when(name, lambda found: condition(found, names.SLURM_DRAIN) is not None)

    async def leave(self, name: str, *, reason: str = "scale-in") -> None:
        await self._enter(name, state="leaving", reason=reason)

    async def park(self, name: str) -> None:
        await self._enter(name, state="parked")

    async def drop(self, name: str) -> None:
        """Take an entry away, as the NodeSet controller does when the name was released."""
        del self._entries[name]
        await self._write_entries()

    async def _enter(self, name: str, *, state: State, reason: str = "") -> None:
        node = self.node_of.get(name) or next(iter(self._free))
        self.node_of[name] = node
        self._entries[name] = Entry(name=name, node=node, state=state, reason=reason)
        await self._write_entries()

    async def _write_entries(self) -> None:
        """Write the slice, then what the NodeSet says about the number of members, as its controller does."""
        async with self._writing:
            entries = to_builtins(list(self._entries.values()))
            patch = Merge({"spec": {"entries": entries}})
            await self.client.patch(NODESLICES, SLICE, patch, namespace=self.namespace)
            found = await self.client.get(NODESETS, SET, namespace=self.namespace)
            status = {"members": len(entries), "slices": 1, "observedGeneration": found.metadata.generation}
            patch = Merge({"status": status})
            await self.client.patch(NODESETS, SET, patch, namespace=self.namespace, subresource="status")

    def entry(self, name: str) -> Entry:
        return self._entries[name]

    async def slice_status(self) -> NodeSliceStatus:
        return (await self.client.get(NODESLICES, SLICE, namespace=self.namespace)).status

    async def status_when(self, holds: Callable[[NodeSliceStatus], bool], **patience: float) -> NodeSliceStatus:
        return await self.eventually(self.slice_status, holds, **patience)

    # Pods

    async def make_pod(
        self, name: str, *, ready: bool = True, annotations: Mapping[str, str] | None = None
    ) -> ComputePod:
        """Make the Pod of a member and wait until its kubelet has started it."""
        node = self.node_of.get(name) or next(iter(self._free))
        self.node_of[name] = node
        marks = dict(annotations or {}) | ({} if ready else {_READY: "false"})
        body = {
            "metadata": {
                "name": name,
                "labels": {names.CLUSTER: CLUSTER, names.COMPONENT: names.COMPUTE, names.NODESET: SET},
                "ownerReferences": [await self.owner()],
                "annotations": marks,
            },
            "spec": {
                "nodeName": node,
                "tolerations": [{"operator": "Exists"}],
                "terminationGracePeriodSeconds": 5,
                "containers": [{"name": names.SLURMD, "image": "none"}],
            },
        }
        await self.client.create(COMPUTE_PODS, body, namespace=self.namespace)
        return await self.pod_when(name, lambda pod: pod.status.phase == "Running" and _is_ready(pod) is ready)

    async def owner(self) -> dict[str, object]:
        """The reference that makes a Pod one of our NodeSet's."""
        return owned_by(await self.client.get(NODESETS, SET, namespace=self.namespace)) | {"blockOwnerDeletion": False}

    async def pod(self, name: str) -> ComputePod:
        return await self.client.get(COMPUTE_PODS, name, namespace=self.namespace)

    async def pod_when(self, name: str, holds: Callable[[ComputePod], bool], **patience: float) -> ComputePod:
        return await self.eventually(lambda: self.pod(name), holds, **patience)

    @asynccontextmanager
    async def followed(self, name: str) -> AsyncIterator["Followed"]:
        """Every version of a Pod from now on."""
        pods = Collection(self.client, COMPUTE_PODS, Scope(namespace=self.namespace))
        seen: list[ComputePod] = []

        def hear(_: object, before: ComputePod | None, after: ComputePod | None) -> None:
            if before is not None and after is not None and after.metadata.name == name:
                seen.append(after)

        async with running({"follow": pods.run()}):
            await pods.store.complete()
            pods.store.subscribe(hear)
            yield Followed(self, name, pods, seen)

    async def mark(self, name: str, annotations: Mapping[str, str | None]) -> None:
        patch = Merge({"metadata": {"annotations": dict(annotations)}})
        await self.client.patch(COMPUTE_PODS, name, patch, namespace=self.namespace)

    async def ready(self, name: str, *, is_so: bool = True) -> None:
        """Have its kubelet say so."""
        await self.mark(name, {_READY: None if is_so else "false"})
        await self.pod_when(name, lambda pod: _is_ready(pod) is is_so)

    async def say(self, name: str, kind: str, status: str, **fields: str) -> None:
        """Write a condition, as people's own controllers do."""
        now = datetime.now(UTC).isoformat()
        said = {"type": kind, "status": status, "lastTransitionTime": now} | fields
        patch = Strategic({"status": {"conditions": [said]}})
        await self.client.patch(COMPUTE_PODS, name, patch, namespace=self.namespace, subresource="status")

    async def condition(  # noqa: PLR0913 - each stands for itself and has a default
        self, name: str, kind: str, status: str, *, reason: str = "", message: str = "", seconds: float = PATIENCE
    ) -> ComputePod:
        """Wait until a condition says this, and reason and message too where they are given."""

        def holds(pod: ComputePod) -> bool:
            found = condition(pod, kind)
            if found is None or found.status != status:
                return False
            return reason in {"", found.reason} and message in {"", found.message}

        return await self.pod_when(name, holds, seconds=seconds)

    async def label(self, name: str, key: str, value: str | None) -> ComputePod:
        """Wait until a label has a value, or is not there."""
        return await self.pod_when(name, lambda pod: pod.metadata.labels.get(key) == value)

    async def delete_pod(self, name: str) -> None:
        """Delete it and wait until it is gone."""
        await self.client.delete(COMPUTE_PODS, name, namespace=self.namespace)
        await self.eventually(self.pod_names, lambda found: name not in found)

    async def pod_names(self) -> set[str]:
        found = await self.client.list(COMPUTE_PODS, Scope(namespace=self.namespace))
        return {pod.metadata.name for pod in found.items}

    async def node(self, member: str) -> Node:
        """The Kubernetes Node of a member."""
        return await self.client.get(NODES, self.node_of[member])

    # Slurm

    async def scontrol(self, *words: str) -> str:
        return await asyncio.to_thread(self.slurm.run, "scontrol", *words)

    async def sbatch(self, node: str, *options: str, script: str = "sleep 600") -> int:
        """Have a job run on a node; gives its number when it does. It must last until that was seen."""
        words = ("sbatch", "--parsable", "--output=/dev/null", "-w", node, *options, "--wrap", script)
        job = int(await asyncio.to_thread(self.slurm.run, *words, uid=ALICE))
        await self.eventually(lambda: self.job_state(job), lambda state: set(state.split()) == {"RUNNING"})
        return job

    async def job_state(self, job: int) -> str:
        """In Slurm's words; empty if it is not known any more."""
        answer = await asyncio.to_thread(
            self.slurm.attempt, "squeue", "--noheader", "--states=all", "-o", "%T", "-j", str(job)
        )
        return answer.out.strip()

    async def scancel(self, job: int) -> None:
        await asyncio.to_thread(self.slurm.run, "scancel", str(job))

    async def seen(self, name: str) -> Seen:
        answer = await asyncio.to_thread(self.slurm.attempt, "scontrol", "show", "node", name, on=CONTROLLER)
        return read(answer.out) if answer.code == 0 else Seen()

    async def slurm_when(self, name: str, holds: Callable[[Seen], bool], **patience: float) -> Seen:
        return await self.eventually(lambda: self.seen(name), holds, **patience)

    async def drained(self, name: str, reason: str, **patience: float) -> Seen:
        return await self.slurm_when(name, lambda node: node.drained and node.reason == reason, **patience)

    async def free(self, name: str, **patience: float) -> Seen:
        return await self.slurm_when(name, lambda node: node.known and not node.drained, **patience)

    # Faults

    async def syncer_says(self, text: str) -> None:
        """Wait until its log has this."""

        async def log() -> str:
            return self.syncer.log()

        await self.eventually(log, lambda found: text in found)

    async def kill_syncer(self) -> None:
        """End it as the kernel does, and restart it."""
        await asyncio.to_thread(self.syncer.kill)
        await asyncio.to_thread(self.syncer.start)

    @asynccontextmanager
    async def without_slurmctld(self) -> AsyncIterator[None]:
        await asyncio.to_thread(self.slurm.stop, CONTROLLER)
        try:
            yield
        finally:
            await asyncio.to_thread(self.slurm.start, CONTROLLER)

    @asynccontextmanager
    async def operator(self, *builds: Build, leads: Callable[[], bool] = lambda: True) -> AsyncIterator["CaughtUp"]:
        """Run parts of the operator in this process. What is given waits until it knows all that was written before."""
        reach = access.from_kubeconfig(self.api.kubeconfig)
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(Client(reach))
            recorder = await stack.enter_async_context(Recorder(client, reporter="sunk-controller-manager"))
            setting = Setting(client, recorder, leads, namespaces=(self.namespace,), workers=4)
            parts = [build(setting) for build in builds]
            follows = tuple(one for part in parts for one in part.follows)
            works: list[Any] = [one for part in parts for one in (*part.follows, *part.controllers, *part.work)]
            async with running({f"operator: {number}": one.run() for number, one in enumerate(works)}):
                yield partial(_catch_up, follows)

    # What people see

    async def report(self) -> Report | None:
        return report(await self.client.get(SLURMCLUSTERS, CLUSTER, namespace=self.namespace))

    async def held(self, text: str) -> Report | None:
        """Wait until the report says that all is held back, with this in its reason."""
        return await self.eventually(self.report, lambda report: report is not None and text in report.held)

    async def not_held(self, *, seconds: float = PATIENCE) -> None:
        await self.eventually(self.report, lambda report: report is not None and not report.held, seconds=seconds)

    async def accounted(self, job: int, state: str) -> None:
        """Wait until `sacct` shows a job so."""
        words = ("--noheader", "--parsable2", "--allusers", "--allocations", "--format=state", f"--jobs={job}")

        async def shown() -> str:
            return (await asyncio.to_thread(self.slurm.run, "sacct", *words)).strip()

        await self.eventually(shown, lambda found: found == state, seconds=180)

    async def events(self, reason: str) -> list[Event]:
        found = await self.client.list(EVENTS, Scope(namespace=self.namespace))
        return [one for one in found.items if one.reason == reason]

    async def eventually(
        self, look: Callable[[], Awaitable[T]], holds: Callable[[T], bool], *, seconds: float = PATIENCE
    ) -> T:
        """Look until it is so; else fail with what was seen last and with the syncer's last words."""
        deadline = asyncio.get_running_loop().time() + seconds
        found: T | None = None
        while True:
            with suppress(NotFound):
                found = await look()
                if holds(found):
                    return found
            if asyncio.get_running_loop().time() > deadline:
                words = "\n".join(self.syncer.log().splitlines()[-25:])
                pytest.fail(f"not so within {seconds:g} s, but {found}\nThe syncer's last words:\n{words}")
            await asyncio.sleep(0.05)


class Followed:
    """The versions of a Pod since some moment."""

    def __init__(self, stage: Stage, name: str, pods: Collection[ComputePod], seen: list[ComputePod]) -> None:
        self._stage = stage
        self._name = name
        self._pods = pods
        self._seen = seen

    async def up_to_now(self) -> list[ComputePod]:
        """Every version up to now. One that was read in another way may not have come by the watch yet."""
        now = number(await self._stage.pod(self._name))

        async def last() -> int:
            return max(map(number, self._pods.store.all()), default=0)

        await self._stage.eventually(last, lambda found: found >= now)
        return list(self._seen)


async def _catch_up(follows: Sequence[Collection[Any]]) -> None:
    async with asyncio.timeout(PATIENCE):
        for one in follows:
            await _catch_one_up(one)


async def _catch_one_up(one: Collection[Any]) -> None:
    while True:
        with suppress(Stale):  # it waits for an answer of the API server for ten seconds only
            await one.catch_up()
            return


def _is_ready(pod: ComputePod) -> bool:
    return ready(pod)
