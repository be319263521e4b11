"""The agent as a process: probes, metrics, and a clean end.

It is no `sunk.service.process`: that one competes for a Lease, and this agent needs none. Two of them at a time, as during the
replacement of a Node, read the same directories and write the same, and whoever is behind is refused by the version that it
names.

Ready means that the ConfigMaps are kept up to date. Whether a directory answers is told in the report, and restarts help
nobody.
"""

import asyncio
import logging
import signal
from contextlib import AsyncExitStack

from msgspec import Struct

from sunk.directory.agent import Agent, Folders
from sunk.directory.metrics import DirectoryCollector
from sunk.directory.publish import Publisher
from sunk.kube.api.client import Client
from sunk.kube.api.retry import Retry
from sunk.kube.auth.access import Access
from sunk.kube.process.health import Health, Watchdog, served
from sunk.kube.process.metrics import Metrics
from sunk.kube.tasks import running
from sunk.model.contract import clusterobjects
from sunk.model.refusal import Refusal

log = logging.getLogger(__name__)


class AgentOptions(Struct, frozen=True):
    """Which cluster, and where its files are."""

    cluster: str
    namespace: str
    folders: Folders = Folders()
    host: str = "0.0.0.0"  # noqa: S104 - probes and scrapers come from other machines
    port: int = clusterobjects.HEALTH_PORT


async def serve(options: AgentOptions, *, access: Access, told: asyncio.Event) -> None:
    """Run until told to stop. Raises whatever breaks it before."""
    metrics, health = Metrics(), Health()
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(access, retry=Retry(), observe=metrics.observe))
        await stack.enter_async_context(Watchdog().watching())
        publisher = Publisher(client, cluster=options.cluster, namespace=options.namespace)
        agent = Agent(publisher, options.folders)
        metrics.registry.register(DirectoryCollector(agent, publisher))
        health.ready_while("publishing", lambda: agent.trouble)
        health.live_while("readers", agent.dead)
        try:
            await stack.enter_async_context(served(health, metrics, host=options.host, port=options.port))
        except OSError as taken:
            raise Refusal(f"cannot listen for probes: {taken.strerror}. Choose another --port.") from taken
        log.info("reading the directories of %s/%s", options.namespace, options.cluster)
        async with running({"directory agent": agent.run()}):
            await told.wait()
            log.info("stopping on a signal")
            health.stop()


async def until_told(options: AgentOptions, *, access: Access) -> None:
    """Run until SIGTERM or SIGINT."""
    told, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    await serve(options, access=access, told=told)
