"""A stage with thousands of nodes: a real API server, operator, syncer and slurmctld, but nobody behind the nodes.

Operator and syncer run on the files of our image, each on a machine of its own. The Pods are those that the operator
makes for a NodeSet; the kubelets are played, and the crowd of Slurm nodes, which bears the Pods' names, has one slurmd.
Whoever wants a slurmd for each says how Slurm is made instead.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
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
from sunk.model.contract import clusterobjects, confighash, hooks
from sunk.objects.nodesets import NODESETS
from sunk.operator.slurmcluster.rollout.issuing import NewCertificate, issue

NAMESPACE: Final = "bench"
CLUSTER: Final = "bench"
PREFIX: Final = "sim"
OPERATOR, SYNCER = "operator", "syncer"
TAINT: Final = "bench.sunk/lock"
"""A taint that only the bench puts on Nodes: compute Pods stay under it, as they do under the lock."""
_NOTHING: Final[Mapping[str, Mapping[str, str]]] = {}
SlurmOf = Callable[[Sequence[str]], AbstractContextManager[Slurm]]
"""Makes a Slurm with nodes of these names."""


class Played(Stage, frozen=True):
    """Operator and syncer of such a stage can be stopped, started and weighed."""

    operator: Component
    syncer: Component
    ca: str
    """By which whoever calls the syncer's hooks knows it."""

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
    slurm_of: SlurmOf | None = None,
) -> AsyncIterator[Played]:
    """Start everything for so many nodes, and wait until all is calm. `lines` are further ones of slurm.conf.

    Without `slurm_of` the nodes are a crowd with one slurmd.
    """
    make = slurm_of or partial(many_nodes, version=version, lines=lines)
    async with AsyncExitStack() as stack:
        with step(f"Start Kubernetes and Slurm with {count} nodes"):
            server = await stack.enter_async_context(nodesets.staged(count, binds=True))
            slurm = stack.enter_context(make(_members(server.settings)))
        await nodesets.made_namespace(server, NAMESPACE)
        await server.client.create(CONFIG_MAPS, _slurm_conf(lines), namespace=NAMESPACE)
        with step(f"Join {count} nodes"):
            where = ("--namespaces", NAMESPACE, "--lease-namespace", NAMESPACE)
            operator = await _made(slurm, OPERATOR, server, *where)
            await asyncio.to_thread(operator.start)
            await server.client.create(NODESETS, _body(dynamic_features), namespace=NAMESPACE)
            await _joined(server)
        with step("Let the syncer say it all"):
            # With a name that stays, as that of a Pod does, it leads at once when it restarts.
            who = ("--cluster", CLUSTER, "--namespace", NAMESPACE, "--identity", "bench")
            syncer = await _made(slurm, SYNCER, server, *who)
            certificate = _certified(syncer)
            await asyncio.to_thread(syncer.start)
            stage = _stage(server, operator, syncer, ca=certificate.ca)
            await stage.settled()
        yield stage


def _stage(server: nodesets.Stage, operator: Component, syncer: Component, *, ca: str) -> Played:
    settings, slurm = server.settings, syncer.slurm
    return Played(
        client=server.client,
        namespace=NAMESPACE,
        nodes=tuple(settings.name_of(number) for number in range(settings.nodes)),
        members=tuple(_members(settings)),
        program=Program("the witness", slurm.spawn(*WITNESS, uid=SLURM_USER, on=SYNCER)),
        writer=Program("the writer", slurm.spawn(*WITNESS, uid=SLURM_USER, on=SYNCER)),
        host="127.0.0.1",
        log=syncer.log,
        operator=operator,
        syncer=syncer,
        ca=ca,
    )


def _members(settings: Settings) -> list[str]:
    """What the operator calls them: by their addresses."""
    octets = (settings.address_of(number).split(".")[2:] for number in range(settings.nodes))
    return ["-".join((PREFIX, *(f"{int(each):03}" for each in pair))) for pair in octets]


async def _made(slurm: Slurm, name: str, server: nodesets.Stage, *words: str) -> Component:
    command, env = ("sunk", name, *words, "--log-level", "warning"), {"SUNK_HOOKS_PORT": str(clusterobjects.HOOKS_PORT)}
    return await asyncio.to_thread(Component, slurm, name, api=server.cluster, command=command, env=env)


def _certified(syncer: Component) -> NewCertificate:
    """Give the syncer what its hooks are served with, where its Pod would have it, and all machines its name."""
    slurm, name = syncer.slurm, hooks.server_name(NAMESPACE, CLUSTER)
    made = issue((name,), now=datetime.now(UTC))
    folder = slurm.path(hooks.SERVER_FOLDER, on=syncer.name)
    folder.mkdir(parents=True)
    for file, text in ((hooks.CERTIFICATE, made.certificate), (hooks.KEY, made.key)):
        (folder / file).touch(mode=0o600)
        (folder / file).write_text(text)
        os.chown(folder / file, SLURM_USER, SLURM_USER)
    known = slurm.layout.folder / "hosts"
    addresses = {called: address for address, called in map(str.split, known.read_text().splitlines())}
    with known.open("a") as hosts:
        hosts.write(f"{addresses[syncer.name]}\t{name}\n")
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
    template = body["spec"]["template"]
    spec = template["spec"] | {"tolerations": [{"key": TAINT, "operator": "Exists"}]}
    body["spec"] |= {"cluster": CLUSTER, "podNamePrefix": PREFIX, "features": features, "template": {"spec": spec}}
    return body
