"""Whether a Node fits is decided as the real kube-scheduler decides it, and amounts are what the API server says.

Each demand meets each kind of Node on a Node of its own, so that no Pod takes another one's place.
"""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import msgspec
import pytest
from tests.conftest import Kube

from sunk.kube.api.client import Scope
from sunk.kube.core import NODES, PODS, Node, Pod, condition
from sunk.kube.errors import ApiError
from sunk.local.kubernetes import assets
from sunk.model.kubernetes.quantity import NoQuantity, amount
from sunk.model.names import LOCK
from sunk.operator.nodeset.observe.fit import demand, occupancy, unfit_to_join
from sunk.operator.nodeset.observe.template import read

PATIENCE = 120.0
MARK = "tests.sunk/selection"
ROOM = {"cpu": "4", "memory": "8Gi", "pods": "3", "example.com/gpu": "2"}


def term(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def slurmd(**requests: str) -> dict[str, Any]:
    return {"name": "slurmd", "image": "none", "resources": {"requests": requests}}


def init(*, sidecar: bool = False, **requests: str) -> dict[str, Any]:
    return (
        slurmd(**requests)
        | {"name": f"i{len(requests)}-{sidecar}".lower()}
        | ({"restartPolicy": "Always"} if sidecar else {})
    )


NODE_KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "labelled": {"labels": {"zone": "a", "gpus": "8"}},
    "elsewhere": {"labels": {"zone": "b", "gpus": "many"}},
    "tainted": {"labels": {"zone": "a"}, "taints": [{"key": "fan", "value": "3", "effect": "NoSchedule"}]},
    "evicting": {"taints": [{"key": "fan", "value": "4", "effect": "NoExecute"}]},
    "wishing": {"taints": [{"key": "fan", "value": "3", "effect": "PreferNoSchedule"}]},
    "locked": {"taints": [{"key": LOCK, "value": "true", "effect": "NoExecute"}]},
    "cordoned": {"labels": {"zone": "a"}, "unschedulable": True},
    "small": {"room": {"cpu": "1", "memory": "8Gi", "pods": "3"}},
    "full": {"room": ROOM | {"pods": "1"}},
}

DEMANDS: dict[str, dict[str, Any]] = {
    "anywhere": {},
    "in": {"terms": [term("zone", "In", "a", "c")]},
    "not-in": {"terms": [term("zone", "NotIn", "a")]},
    "exists": {"terms": [term("gpus", "Exists")]},
    "missing": {"terms": [term("gpus", "DoesNotExist")]},
    "greater": {"terms": [term("gpus", "Gt", "7")]},
    "less": {"terms": [term("gpus", "Lt", "9")]},
    "either": {"terms": [term("zone", "In", "b"), term("gpus", "Gt", "7")]},
    "both": {
        "terms": [
            {
                "matchExpressions": [
                    *term("zone", "Exists")["matchExpressions"],
                    *term("gpus", "Exists")["matchExpressions"],
                ]
            }
        ]
    },
    "tolerant": {"tolerations": [{"key": "fan", "value": "3"}]},
    "patient": {"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]},
    "fearless": {"tolerations": [{"key": "fan", "operator": "Exists"}], "terms": [term("zone", "In", "a")]},
    "most": {"containers": [slurmd(cpu="3500m", memory="4Gi")]},
    "too-much": {"containers": [slurmd(cpu="3501m")]},
    "devices": {
        "containers": [slurmd(**{"example.com/gpu": "2"}) | {"resources": {"limits": {"example.com/gpu": "2"}}}]
    },
    "sidecar": {"containers": [slurmd(cpu="3")], "initContainers": [init(sidecar=True, cpu="501m")]},
    "starting": {
        "containers": [slurmd(cpu="1")],
        "initContainers": [init(sidecar=True, cpu="1"), init(cpu="2501m", memory="1")],
    },
}


def template(wish: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [slurmd()]} | {
        name: wish[name] for name in ("containers", "initContainers", "tolerations") if name in wish
    }
    if "terms" in wish:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": wish["terms"]}}
        spec["affinity"] = {"nodeAffinity": required}
    return {"spec": spec}


def pinned(wish: dict[str, Any], *, node: str) -> dict[str, Any]:
    """Ask for the same on one Node only, as a compute Pod, which tolerates the lock."""
    here = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    terms = [one | {"matchFields": here} for one in wish.get("terms", [{}])]
    tolerations = [{"key": LOCK, "operator": "Exists"}, *wish.get("tolerations", [])]
    spec = template(wish | {"terms": terms, "tolerations": tolerations})["spec"]
    return {"metadata": {"name": node}, "spec": spec | {"terminationGracePeriodSeconds": 0}}


def node_body(name: str, kind: dict[str, Any]) -> dict[str, Any]:
    spec = {key: kind[key] for key in ("taints", "unschedulable") if key in kind}
    room = kind.get("room", ROOM)
    conditions = [{"type": "Ready", "status": "True", "reason": "Test", "message": ""}]
    return {
        "metadata": {"name": name, "labels": {MARK: "yes"} | kind.get("labels", {})},
        "spec": spec,
        "status": {"capacity": room, "allocatable": room, "conditions": conditions},
    }


def holdout(node: str) -> dict[str, Any]:
    """What stays on every Node: half a CPU and one place."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "500m"}}}
    spec = {"nodeName": node, "containers": [container], "tolerations": [{"operator": "Exists"}]}
    return {"metadata": {"name": f"holdout-{node}"}, "spec": spec | {"terminationGracePeriodSeconds": 0}}


@contextmanager
def scheduler(kube: Kube) -> Iterator[None]:
    """A real one. Started when everything is there, it has seen all of it before its first verdict."""
    program = assets.fill(images=False).parts.kubernetes
    flags = [f"--kubeconfig={kube.kubeconfig}", "--leader-elect=false", "--secure-port=0", "--kube-api-qps=500"]
    command = [str(program), "kube-scheduler", *flags, "--kube-api-burst=500"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        try:
            yield
        finally:
            running.kill()


@pytest.fixture
async def pairs(kube: Kube) -> AsyncIterator[dict[str, tuple[str, str]]]:
    """A Node for each demand and kind; its name stands for the pair."""
    made = {f"{wish}.{kind}": (wish, kind) for wish, kind in product(DEMANDS, NODE_KINDS)}
    await asyncio.gather(*(kube.client.create(NODES, node_body(n, NODE_KINDS[kind])) for n, (_, kind) in made.items()))
    yield made
    await asyncio.gather(*(kube.client.delete(NODES, name) for name in made))


async def settled(kube: Kube, pairs: dict[str, tuple[str, str]]) -> dict[str, Node]:
    """Wait until Kubernetes has seen that the Nodes are ready: it taints every new one at first."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = {one.metadata.name: one for one in (await kube.client.list(NODES, Scope(labels=MARK))).items}
            if all(_taints(found[name]) == _wanted_taints(NODE_KINDS[kind]) for name, (_, kind) in pairs.items()):
                return found
            await asyncio.sleep(0.1)


def _taints(node: Node) -> set[str]:
    return {one.key for one in node.spec.taints}


def _wanted_taints(kind: dict[str, Any]) -> set[str]:
    cordon = {"node.kubernetes.io/unschedulable"} if kind.get("unschedulable") else set()
    return {one["key"] for one in kind.get("taints", [])} | cordon


async def decided(kube: Kube, pairs: dict[str, tuple[str, str]]) -> dict[str, bool]:
    """Wait until the scheduler has said something about every Pod."""
    async with asyncio.timeout(PATIENCE):
        while True:
            pods = (await kube.client.list(PODS, Scope(namespace=kube.namespace))).items
            verdicts = {pod.metadata.name: _verdict(pod) for pod in pods if pod.metadata.name in pairs}
            if len(verdicts) == len(pairs) and None not in verdicts.values():
                return {name: bool(verdict) for name, verdict in verdicts.items()}
            await asyncio.sleep(0.1)


def _verdict(pod: Pod) -> bool | None:
    said = condition(pod.status.conditions, "PodScheduled")
    if said is not None and said.status == "False" and said.reason == "Unschedulable":
        return False
    return True if pod.spec.node_name else None


async def test_a_node_fits_exactly_where_the_scheduler_would_place_the_pod(
    kube: Kube, pairs: dict[str, tuple[str, str]]
) -> None:
    nodes = await settled(kube, pairs)
    create = kube.client.create
    holdouts = await asyncio.gather(*(create(PODS, holdout(name), namespace=kube.namespace) for name in pairs))
    bodies = [pinned(DEMANDS[wish], node=name) for name, (wish, _) in pairs.items()]
    await asyncio.gather(*(create(PODS, body, namespace=kube.namespace) for body in bodies))
    asked = {wish: demand(read(msgspec.json.encode(template(tree)))) for wish, tree in DEMANDS.items()}
    staying = {pod.spec.node_name: occupancy([pod]) for pod in holdouts}
    ours = {name: unfit_to_join(nodes[name], asked[wish], taken=staying[name]) for name, (wish, _) in pairs.items()}
    with scheduler(kube):
        theirs = await decided(kube, pairs)
    assert {name: why for name, why in ours.items() if (why is None) is not theirs[name]} == {}
    assert 20 < sum(theirs.values()) < len(pairs) - 20


@pytest.mark.parametrize(
    "text", ["8", "1.5Gi", ".5k", "5.", " 3 ", "12e6", "1E3", "+3M", "2E", "100Ei", "1500m", "007Ki"]
)
async def test_an_amount_is_what_the_api_server_makes_of_it(kube: Kube, text: str) -> None:
    body = {"metadata": {"generateName": "q-"}, "spec": {"containers": [slurmd(memory=text)]}}
    told = (await kube.client.create(PODS, body, namespace=kube.namespace)).spec.containers[0].resources.requests
    assert amount((told or {})["memory"]) == amount(text)


@pytest.mark.parametrize("text", ["", "lots", "1K", "1e", "1e1k", "1.2.3", "--1"])
async def test_what_is_no_amount_is_none_to_the_api_server_either(kube: Kube, text: str) -> None:
    body = {"metadata": {"generateName": "q-"}, "spec": {"containers": [slurmd(memory=text)]}}
    with pytest.raises(ApiError):
        await kube.client.create(PODS, body, namespace=kube.namespace)
    with pytest.raises(NoQuantity):
        amount(text)
