"""Keep the leases of many Nodes renewed at a steady, low rate.

A lease is one write per Node and period, and the one cost that never stops. The writes are therefore spread: every
Node has its own place in the period, and each renewal aims at the next time that this place comes round. A renewal is
a plain replace with the version of the last answer, the cheapest write there is; only if that fails is the lease read.
"""

import math
from datetime import UTC, datetime
from zlib import crc32

from sunk.kube.api.client import Client
from sunk.kube.core import LEASES
from sunk.kube.errors import AlreadyExists, Conflict, NotFound
from sunk.kube.resource import Metadata
from sunk.local.fakekubelet import nodes
from sunk.local.fakekubelet.settings import Settings
from sunk.model import loopclock


def next_renewal(name: str, *, period: float, clock: float) -> float:
    """Find when this Node's place in the period comes round next, not counting the next tenth of it."""
    place = crc32(name.encode()) / 2**32 * period
    return place + math.ceil((clock + period / 10 - place) / period) * period


class LeaseRenewer:
    """Writes leases and remembers their versions."""

    def __init__(self, client: Client, settings: Settings) -> None:
        self._client = client
        self._settings = settings
        self._versions: dict[str, str] = {}
        self.renewals = 0

    async def renew(self, node: Metadata) -> float:
        """Renew one lease now, whatever state it is in; return when to do it again."""
        version = self._versions.get(node.name)
        try:
            await self._write(node, version=version)
        except (AlreadyExists, Conflict):
            found = await self._client.get(LEASES, node.name, namespace=nodes.LEASE_NAMESPACE)
            await self._write(node, version=found.metadata.resource_version)
        except NotFound:
            await self._write(node, version=None)
        self.renewals += 1
        return next_renewal(node.name, period=self._settings.period, clock=loopclock.now())

    def forget(self, name: str) -> None:
        self._versions.pop(name, None)

    async def _write(self, node: Metadata, *, version: str | None) -> None:
        body = nodes.lease(node, settings=self._settings, version=version or "", wall=datetime.now(UTC))
        if version is None:
            written = await self._client.create(LEASES, body, namespace=nodes.LEASE_NAMESPACE)
        else:
            written = await self._client.replace(LEASES, node.name, body, namespace=nodes.LEASE_NAMESPACE)
        self._versions[node.name] = written.metadata.resource_version
