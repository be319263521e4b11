"""A stage with nothing played: a local cluster with real kubelets, and Slurm installed on it as `make up` does it.

Operator and syncer are Pods of our charts, each Slurm node is a Pod with its own slurmd. The witness has a Pod like the
syncer's and to itself: what it takes by its looking is neither of the syncer's share of a CPU nor of its sackd.
"""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final

import msgspec

from bench.installed import installed
from bench.slurm.testbed import Program
from bench.sync.stage import WITNESS, Stage
from sunk.kube.api.client import Client, Scope
from sunk.kube.auth import access
from sunk.kube.core import PODS, condition
from sunk.local.install import NAMESPACE, SLURM, Tools
from sunk.local.progress import step
from sunk.local.slurm.running import PYTHON
from sunk.model import names

NAME: Final = "bench-sync"
SYNCER: Final = f"{SLURM}-syncer"
DEPLOYMENT: Final = f"deployment/{SYNCER}"
POD: Final = "bench-witness"
LIKE_THE_SYNCER: Final = ("image", "imagePullPolicy", "resources", "securityContext", "volumeMounts")
REACHES_SLURM: Final = [PYTHON, "-c", "from sunk.slurm.libslurm.wire import Wire; Wire().statistics()"]


@asynccontextmanager
async def staged(count: int) -> AsyncIterator[Stage]:
    """Start everything for so many nodes, and wait until all is calm."""
    with installed(NAME, count=count) as (tools, _):
        async with Client(access.from_kubeconfig(tools.kubeconfig)) as client:
            with step("Start the witness"):
                await _made_pod(client, tools)
            with _program(tools, "the witness") as witness, _program(tools, "the writer") as writer:
                stage = await _stage(client, tools, witness, writer)
                with step("Let the syncer say it all"):
                    await stage.settled()
                yield stage


async def _stage(client: Client, tools: Tools, witness: Program, writer: Program) -> Stage:
    found = await client.list(PODS, Scope(namespace=NAMESPACE, labels=f"{names.COMPONENT}={names.COMPUTE}"))
    return Stage(
        client=client,
        namespace=NAMESPACE,
        nodes=tuple(pod.spec.node_name for pod in found.items),
        members=tuple(pod.metadata.name for pod in found.items),
        program=witness,
        writer=writer,
        host=SYNCER,
        log=partial(tools, "kubectl", "logs", "--namespace", NAMESPACE, DEPLOYMENT),
    )


async def _made_pod(client: Client, tools: Tools) -> None:
    syncer = tools("kubectl", "get", "--namespace", NAMESPACE, DEPLOYMENT, "--output", "json")
    spec = msgspec.json.decode(syncer)["spec"]["template"]["spec"]
    await client.create(PODS, {"metadata": {"name": POD}, "spec": _spec(spec)}, namespace=NAMESPACE)
    while True:
        ready = condition((await client.get(PODS, POD, namespace=NAMESPACE)).status.conditions, "Ready")
        if ready is not None and ready.status == "True":
            return
        await asyncio.sleep(0.5)


def _spec(syncer: dict[str, Any]) -> dict[str, Any]:
    """Of a Pod beside whose sackd nothing runs until the witness does."""
    (container,) = syncer["containers"]
    own = {key: container[key] for key in LIKE_THE_SYNCER}
    # Until sackd has fetched the configuration libslurm would end the witness.
    own["startupProbe"] = {"exec": {"command": REACHES_SLURM}, "periodSeconds": 1, "failureThreshold": 60}
    return {**syncer, "containers": [{"name": "witness", "command": ["sleep", "infinity"], **own}]}


@contextmanager
def _program(tools: Tools, name: str) -> Iterator[Program]:
    command = (str(tools.folder / "kubectl"), "exec", "--stdin", "--namespace", NAMESPACE, POD, "--", *WITNESS)
    env, pipe = {**os.environ, "KUBECONFIG": str(tools.kubeconfig)}, subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=env) as started:
        try:
            yield Program(name, started)
        finally:
            started.kill()  # it may be in the middle of a look that nobody waits for any more
