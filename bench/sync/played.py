"""A stage with thousands of nodes: a real API server, operator, syncer and slurmctld, but nobody behind the nodes.

Operator and syncer run on the files of our image, each on a machine of its own. The Pods are those that the operator
makes for a NodeSet; the kubelets are played, and the crowd of Slurm nodes, which bears the Pods' names, has one slurmd.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from bench.nodesets import stage as nodesets
from bench.slurm.testbed import Program
from bench.sync.stage import WITNESS, Stage
from sunk.kube.core import CONFIG_MAPS
from sunk.local.artifacts import images
from sunk.local.fakekubelet import Settings
from sunk.local.progress import step
from sunk.local.slurm import Slurm, many_nodes
from sunk.local.slurm.boxes.box import SLURM_USER
from sunk.local.slurm.component import Component
from sunk.local.slurm.configuration import PARTITIONS
from sunk.model.contract import clusterobjects, confighash
from sunk.objects.nodesets import NODESETS

NAMESPACE: Final = "bench"
CLUSTER: Final = "bench"
PREFIX: Final = "sim"
_NOTHING: Final[Mapping[str, Mapping[str, str]]] = {}
OPERATOR, SYNCER = "operator", "syncer"


class Played(Stage, frozen=True):
    """The syncer of such a stage can be stopped, started and weighed."""

    syncer: Component

    @property
    def process(self) -> int:
        """Of the syncer."""
        if (found := self.syncer.process) is None:
            raise SystemExit(f"the syncer has ended:\n{self.log()[-3000:]}")
        return found


@asynccontextmanager
async def staged(
    count: int,
    *,
    version: str = images.DEFAULT,
    lines: Sequence[str] = PARTITIONS,
    dynamic_features: Mapping[str, Mapping[str, str]] = _NOTHING,
) -> AsyncIterator[Played]:
    """Start everything for so many nodes, and wait until all is calm. `lines` are further ones of slurm.conf."""
    async with AsyncExitStack() as stack:
        with step(f"Start Kubernetes and Slurm with {count} nodes"):
            server = await stack.enter_async_context(nodesets.staged(count, binds=True))
            slurm = stack.enter_context(many_nodes(_members(server.settings), version=version, lines=lines))
        await nodesets.made_namespace(server, NAMESPACE)
        await server.client.create(CONFIG_MAPS, _slurm_conf(lines), namespace=NAMESPACE)
        with step(f"Join {count} nodes"):
            await _started(slurm, OPERATOR, server, "--namespaces", NAMESPACE, "--lease-namespace", NAMESPACE)
            await server.client.create(NODESETS, _body(dynamic_features), namespace=NAMESPACE)
            await _joined(server)
        with step("Let the syncer say it all"):
            # With a name that stays, as that of a Pod does, it leads at once when it restarts.
            who = ("--cluster", CLUSTER, "--namespace", NAMESPACE, "--identity", "bench")
            stage = _stage(server, slurm, await _started(slurm, SYNCER, server, *who))
            await stage.settled()
        yield stage


def _stage(server: nodesets.Stage, slurm: Slurm, syncer: Component) -> Played:
    settings = server.settings
    return Played(
        client=server.client,
        namespace=NAMESPACE,
        nodes=tuple(settings.name_of(number) for number in range(settings.nodes)),
        members=tuple(_members(settings)),
        program=Program("the witness", slurm.spawn(*WITNESS, uid=SLURM_USER, on=SYNCER)),
        writer=Program("the writer", slurm.spawn(*WITNESS, uid=SLURM_USER, on=SYNCER)),
        host="127.0.0.1",
        log=syncer.log,
        syncer=syncer,
    )


def _members(settings: Settings) -> list[str]:
    """What the operator calls them: by their addresses."""
    octets = (settings.address_of(number).split(".")[2:] for number in range(settings.nodes))
    return ["-".join((PREFIX, *(f"{int(each):03}" for each in pair))) for pair in octets]


async def _started(slurm: Slurm, name: str, server: nodesets.Stage, *words: str) -> Component:
    command = ("sunk", name, *words, "--log-level", "warning")
    made = await asyncio.to_thread(Component, slurm, name, api=server.cluster, command=command)
    await asyncio.to_thread(made.start)
    return made


async def _joined(server: nodesets.Stage) -> None:
    """Wait until every Pod is ready: of those that start, the syncer would drain each and take it back."""
    while True:
        found = await server.client.get(NODESETS, CLUSTER, namespace=NAMESPACE)
        if found.status.number_ready == server.settings.nodes:
            return
        await asyncio.sleep(0.5)


def _slurm_conf(lines: Sequence[str]) -> dict[str, Any]:
    """By which the syncer knows what partitions are made of."""
    name = f"{CLUSTER}-{clusterobjects.SLURM_CONF}"
    return {"metadata": {"name": name}, "data": {confighash.FILE: "\n".join(lines)}}


def _body(dynamic_features: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    body = nodesets.set_body(CLUSTER, NAMESPACE)
    # The crowd has this feature: others would be written, and then slurmctld told to reconfigure.
    features = {"staticFeatures": ["crowd"], "dynamicFeatures": dict(dynamic_features)}
    body["spec"] |= {"cluster": CLUSTER, "podNamePrefix": PREFIX, "features": features}
    return body
