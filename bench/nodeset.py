"""What the NodeSet controller costs: 2,000 Nodes joined, at rest, and one more.

The measure for joining is a bare loop of the kit that writes what is there in the end, and nothing else: the claim on
each Node, each Pod, each slice; as many at a time as the operator has. Both are done in turns on the same server. The
operator is `sunk operator` in a process of its own, as it is deployed.
"""

import argparse
import asyncio
import time
from statistics import median
from typing import Final

from bench.fake_kubelet import cpu_of, megabytes_of
from bench.nodesets.stage import POOL, PORT, Stage, made_namespace, operating, set_body, staged
from bench.report import Figure, report
from sunk.kube.api.client import Deletion, Scope
from sunk.kube.api.patch import Merge
from sunk.kube.cache.view import Changed
from sunk.kube.cache.watch import watch
from sunk.kube.core import NODES, PODS
from sunk.local.progress import step
from sunk.model import names
from sunk.model.nodeset import NodeSetStatus
from sunk.objects.nodesets import NODESETS, NODESLICES
from sunk.operator.nodeset.act.batches import MOST, in_parallel
from sunk.operator.nodeset.act.podbuilder import PodBuilder

NODES_WANTED: Final = 2000
TURNS: Final = 3
SINGLES: Final = 25
QUIET: Final = 30.0
TOLD: Final = 20.0
"""Seconds after which a Node that joined says `Unknown` where there is no syncer."""
CALM: Final = 5.0
SET: Final = "bench"
SIZE: Final = 100


async def bare(stage: Stage, namespace: str) -> float:
    """Write what the operator will have written, by nothing but the kit's client."""
    owner = await stage.client.create(NODESETS, set_body(SET, namespace), namespace=namespace)
    builder = PodBuilder(owner, revision="0")
    nodes = [stage.settings.name_of(number) for number in range(stage.settings.nodes)]
    began = time.monotonic()

    async def claim(node: str) -> None:
        labels = {names.NODESET: SET, names.NAMESPACE: namespace, names.POD: f"{SET}-{node}"}
        await stage.client.patch(
            NODES, node, Merge({"metadata": {"labels": labels, "annotations": {"bench/claim": SET}}})
        )

    async def create(node: str) -> None:
        await stage.client.create(PODS, builder.pod(f"{SET}-{node}", node=node), namespace=namespace)

    async def write(start: int) -> None:
        entries = [{"name": f"{SET}-{node}", "node": node} for node in nodes[start : start + SIZE]]
        spec = {"nodeSet": SET, "nodeSetUid": owner.metadata.uid, "entries": entries}
        body = {"metadata": {"name": f"{SET}-{start // SIZE}"}, "spec": spec, "kind": "NodeSlice"}
        body["apiVersion"] = f"{NODESLICES.group}/{NODESLICES.version}"
        await stage.client.create(NODESLICES, body, namespace=namespace)

    for items, act in ((nodes, claim), (range(0, len(nodes), SIZE), write), (nodes, create)):
        if trouble := await in_parallel(list(items), act, most=MOST):  # type: ignore[arg-type]
            raise ExceptionGroup("the bare loop", trouble)
    return time.monotonic() - began


async def joined(stage: Stage, namespace: str) -> float:
    """Create a NodeSet, and wait until its status says that all is there."""
    scope = Scope(namespace=namespace, fields=f"metadata.name={SET}")
    async with watch(stage.client, NODESETS, scope) as events:
        began = time.monotonic()
        await stage.client.create(NODESETS, set_body(SET, namespace), namespace=namespace)
        async for event in events:
            if isinstance(event, Changed) and _complete(event.object.status, stage.settings.nodes):
                return time.monotonic() - began
    raise SystemExit("the watch ended")


def _complete(status: NodeSetStatus, count: int) -> bool:
    return status.current_number_scheduled == status.members == count


async def cleared(stage: Stage, namespace: str) -> None:
    """Take everything away again, so that the next turn begins as the first did."""
    for resource in (PODS, NODESLICES, NODESETS):
        everything = resource.path(namespace)
        if resource is NODESETS:
            await _unguarded(stage, namespace)
        await stage.client.request("DELETE", everything, body=Deletion(grace_period_seconds=0))
    while (await stage.client.list(PODS, Scope(namespace=namespace))).items:  # noqa: ASYNC110 - the server is asked
        await asyncio.sleep(0.5)
    gone = dict.fromkeys((names.NODESET, names.NAMESPACE, names.POD))
    change = Merge({"metadata": {"labels": gone, "annotations": {names.CLAIM: None, "bench/claim": None}}})

    async def clean(node: str) -> None:
        await stage.client.patch(NODES, node, change)

    await in_parallel([stage.settings.name_of(number) for number in range(stage.settings.nodes)], clean)


async def _unguarded(stage: Stage, namespace: str) -> None:
    for one in (await stage.client.list(NODESETS, Scope(namespace=namespace))).items:
        await stage.client.patch(
            NODESETS, one.metadata.name, Merge({"metadata": {"finalizers": None}}), namespace=namespace
        )


async def at_rest(stage: Stage, pid: int) -> tuple[float, float]:
    """CPU of the operator as a share of a core, and its writes, while nothing happens."""
    await settled(stage)
    before, written, began = cpu_of(pid), await writes(stage), time.monotonic()
    await asyncio.sleep(QUIET)
    share = (cpu_of(pid) - before) / (time.monotonic() - began)
    return share, await writes(stage) - written


async def settled(stage: Stage) -> None:
    """Wait for the last word about new Nodes: that nobody knows what Slurm says, some seconds after they joined."""
    await asyncio.sleep(TOLD)
    seen = -1.0
    while (now := await writes(stage)) != seen:
        seen = now
        await asyncio.sleep(CALM)


async def writes(_: Stage) -> float:
    """How often the operator has written, by its own count; renewals of its lease are none."""
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
    text = (await reader.read()).decode()
    writer.close()
    lines = [line for line in text.splitlines() if line.startswith("sunk_kube_requests_total")]
    changing = [
        line for line in lines if any(f'verb="{verb}"' in line for verb in ("create", "update", "patch", "delete"))
    ]
    return sum(float(line.rpartition(" ")[2]) for line in changing if 'resource="leases"' not in line)


async def singles(stage: Stage, namespace: str) -> tuple[list[float], list[float]]:
    """One Node more, many times: from its label to its Pod, and beside it a bare create to its Pod."""
    ours, plain = [], []
    found: asyncio.Queue[str] = asyncio.Queue()

    async def listen() -> None:
        async with watch(stage.client, PODS, Scope(namespace=namespace)) as events:
            async for event in events:
                if isinstance(event, Changed):
                    found.put_nowait(event.object.metadata.name)

    listening = asyncio.create_task(listen(), name="bench: listen")
    await asyncio.sleep(3)
    owner = await stage.client.get(NODESETS, SET, namespace=namespace)
    builder = PodBuilder(owner, revision="0")
    for number in range(SINGLES):
        plain.append(await _bare_single(stage, found, builder, number, namespace=namespace))
        ours.append(await _single(stage, found, number))
    listening.cancel()
    return ours, plain


async def _bare_single(
    stage: Stage, found: "asyncio.Queue[str]", builder: PodBuilder, number: int, *, namespace: str
) -> float:
    name = f"plain-{number}"
    _drain(found)
    body = builder.pod(name, node="nowhere")
    del body["metadata"]["ownerReferences"]
    began = time.monotonic()
    await stage.client.create(PODS, body, namespace=namespace)
    while await found.get() != name:
        pass
    return time.monotonic() - began


async def _single(stage: Stage, found: "asyncio.Queue[str]", number: int) -> float:
    _drain(found)
    name = f"extra-{number}"
    # As the fake kubelet would write it; a Node that is not of its fleet is left alone by it.
    status = {
        "addresses": [{"type": "InternalIP", "address": f"10.99.{200 + number // 200}.{number % 200 + 1}"}],
        "allocatable": {"cpu": "8", "memory": "64Gi", "pods": "10"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    await stage.client.create(NODES, {"metadata": {"name": name}})
    await stage.client.patch(NODES, name, Merge({"status": status}), subresource="status")
    await asyncio.sleep(0.5)  # the controllers of Kubernetes taint it and take that back
    await _untainted(stage, name)
    await stage.client.patch(NODES, name, Merge({"metadata": {"labels": {POOL: "yes"}}}))
    began = time.monotonic()
    await found.get()
    took = time.monotonic() - began
    await asyncio.sleep(0.3)
    return took


async def _untainted(stage: Stage, name: str) -> None:
    while (await stage.client.get(NODES, name)).spec.taints:  # noqa: ASYNC110 - the server is asked
        await asyncio.sleep(0.2)


def _drain(found: "asyncio.Queue[str]") -> None:
    while not found.empty():
        found.get_nowait()


async def measure(count: int) -> list[Figure]:
    loops, sets = [], []
    async with staged(count) as stage:
        await made_namespace(stage, "bare")
        await made_namespace(stage, "ours")
        async with operating(stage, namespace="ours") as child:
            for turn in range(TURNS):
                with step(f"Join {count} Nodes by a bare loop"):
                    loops.append(await bare(stage, "bare"))
                await cleared(stage, "bare")
                with step(f"Join {count} Nodes to a NodeSet"):
                    sets.append(await joined(stage, "ours"))
                if turn < TURNS - 1:
                    await cleared(stage, "ours")
            with step("Look at it rest"):
                share, written = await at_rest(stage, child.pid)
            held = megabytes_of(child.pid)
            with step("Add one Node at a time"):
                ours, plain = await singles(stage, "ours")
    return [
        Figure(f"{count} Nodes joined, to a bare loop of the same writes", median(sets) / median(loops), "×", goal=1.5),
        Figure("the same, of the operator", median(sets), "s"),
        Figure("the same, of the loop", median(loops), "s"),
        Figure("CPU at rest", share * 100, "% of a core", goal=1),
        Figure("writes at rest", written, "writes", goal=0),
        Figure("memory", held, "MB"),
        Figure("Node labelled to Pod seen, to a bare create seen", median(ours) / median(plain), "×", goal=3),
        Figure("the same, of the operator", median(ours) * 1e3, "ms"),
        Figure("the same, of a bare create", median(plain) * 1e3, "ms"),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES_WANTED)
    report("nodeset", asyncio.run(measure(parser.parse_args().nodes)))
