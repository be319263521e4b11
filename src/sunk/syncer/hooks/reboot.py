"""Ask for the reboot of a Node: by a condition, upon which whoever looks after machines reboots it.

Slurm calls `RebootProgram` on the node itself when somebody asks for its reboot (`scontrol reboot`). The program calls
here, and the condition goes on the Node that the Pod is on. The syncer does not read Nodes, so the patch names the Node and
nothing else of it; a policy of the chart `sunk` keeps it to Nodes of this cluster.

Whichever replica is asked writes, leader or not: nothing is decided, and to say it twice is to say it once.

It needs two permissions: that of the cluster (`syncer.nodePermissions.enabled`), without which nothing is tried, and that
of the chart `sunk` (`nodePermissions`), without which the API server refuses.
"""

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct

from sunk.kube.api.client import Client
from sunk.kube.api.patch import Strategic
from sunk.kube.cache.store import Store
from sunk.kube.core import NODES
from sunk.kube.errors import Forbidden, KubeError, NotFound
from sunk.kube.resource import Key
from sunk.service.hooks.server import HookAnswer, HookCall
from sunk.syncer.pods import ComputePod

log = logging.getLogger(__name__)

PATIENCE: Final = 20.0
"""Seconds. The caller gives up after 30."""


class RebootSettings(Struct, frozen=True):
    """Which condition asks for a reboot, and whether it may be written."""

    allowed: bool = False
    condition: str = "PhaseState"
    reason: str = "production-powerreset"


def reboot_condition(settings: RebootSettings, *, node: str, by: str, now: datetime) -> dict[str, Any]:
    at = now.astimezone(UTC).replace(microsecond=0)
    return {
        "type": settings.condition,
        "status": "True",
        "reason": settings.reason,
        "message": f"Slurm asks for a reboot of its node {node} (Pod {by})",
        "lastTransitionTime": at,
        "lastHeartbeatTime": at,
    }


class Reboot:
    """A hook of the hook server."""

    def __init__(self, client: Client, pods: Store[ComputePod], settings: RebootSettings) -> None:
        self._client = client
        self._pods = pods
        self._settings = settings

    async def __call__(self, call: HookCall) -> HookAnswer:
        if not self._settings.allowed:
            return _told(403, "Reboots are not allowed: set syncer.nodePermissions.enabled of this cluster.")
        pod = self._pods.get(Key(call.caller.namespace, call.node))
        if pod is None or pod.metadata.uid != call.caller.uid:
            return _told(404, "This Pod is gone.")
        if not pod.spec.node_name:
            return _told(409, "This Pod is on no Node yet.")
        return await self._ask(pod)

    async def _ask(self, pod: ComputePod) -> HookAnswer:
        name, node = pod.metadata.name, pod.spec.node_name
        by, now = f"{pod.metadata.namespace}/{name}", self._client.clock.now()
        body = {"status": {"conditions": [reboot_condition(self._settings, node=name, by=by, now=now)]}}
        try:
            async with asyncio.timeout(PATIENCE):
                await self._client.patch(NODES, node, Strategic(body), subresource="status")
        except Forbidden as refused:
            log.warning("%s asks for a reboot of Node %s: %s", name, node, refused)
            words = "The API server refuses: the chart sunk has to list this cluster in nodePermissions, and the Node to be its own."
            return _told(403, words)
        except NotFound:
            return _told(404, f"There is no Node {node}.")
        except (KubeError, TimeoutError) as trouble:
            log.warning("%s asks for a reboot of Node %s: %s", name, node, str(trouble) or "no answer in time")
            return _told(503, "The API server does not answer; try again.")
        log.warning("%s asks for a reboot of Node %s: condition %s is set", name, node, self._settings.condition)
        return HookAnswer(200, {"result": "requested", "node": node})


def _told(status: int, message: str) -> HookAnswer:
    return HookAnswer(status, {"message": message})
