"""The ConfigMaps of the agent: what is in them now, and how they become what is wanted. The only door to Kubernetes.

Before each comparison the versions of the ConfigMaps are asked for, without their content; only one that somebody else has
written is read. Every write names the version it was decided on, so that of two agents that run for a moment, the one that
is behind is refused and reads again.

Logins are written first. Keys of a user whom nobody knows yet do no harm; a user who is known and has no keys cannot log in.
"""

import logging
from collections.abc import Mapping
from typing import Final, Self

from msgspec import Struct, field, json

from sunk.directory.users.files import Files
from sunk.directory.users.records import Consent
from sunk.kube.api.client import Client
from sunk.kube.api.patch import Merge
from sunk.kube.core import CONFIG_MAPS, ConfigMap
from sunk.kube.errors import NotFound
from sunk.kube.resource import Record
from sunk.model.contract import people
from sunk.model.contract.clusterobjects import named
from sunk.model.loss import accepted_loss

log = logging.getLogger(__name__)

_METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


class Missing(Exception):  # noqa: N818 - named as what is wrong
    """A ConfigMap does not exist. The operator makes it; we may not."""


class Held(Struct, frozen=True):
    """A ConfigMap as we know it."""

    version: str = ""
    data: Mapping[str, str] = field(default_factory=dict)
    accepted_loss: int = 0
    """By an annotation of a person's."""

    @classmethod
    def of(cls, found: ConfigMap) -> Self:
        metadata = found.metadata
        return cls(metadata.resource_version, found.data or {}, accepted_loss(metadata.annotations))


class Publisher:
    """Knows what is published, and publishes."""

    def __init__(self, client: Client, *, cluster: str, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self.people_name: Final = named(cluster, people.AGENT)
        self.login_names: Final = tuple(named(cluster, f"{people.LOGINS}-{number}") for number in range(people.PARTS))
        self.users_name: Final = named(cluster, people.USERS)
        self._held: dict[str, Held] = {}
        self.writes = 0

    @property
    def people(self) -> Mapping[str, str]:
        return self._held[self.people_name].data

    @property
    def logins(self) -> tuple[Mapping[str, str], ...]:
        return tuple(self._held[name].data for name in self.login_names)

    def consent(self) -> Consent:
        """What a person says of it on the ConfigMap with the users."""
        held = self._held.get(self.people_name, Held())
        return Consent(f"-n {self._namespace} configmap {self.people_name}", held.accepted_loss)

    async def refresh(self) -> None:
        """Learn what is there now. Raises Missing, or what the API server says."""
        for name in (*self.login_names, self.people_name):
            try:
                version = await self._version(name)
                if name not in self._held or self._held[name].version != version:
                    found = await self._client.get(CONFIG_MAPS, name, namespace=self._namespace)
                    self._held[name] = Held.of(found)
            except NotFound as missing:
                self._held.pop(name, None)
                raise Missing(f"ConfigMap {name} does not exist; the operator creates it") from missing

    async def _version(self, name: str) -> str:
        path = CONFIG_MAPS.path(self._namespace, name)
        return json.decode(await self._client.read(path, accept=_METADATA), type=Record).metadata.resource_version

    async def users(self, name: str) -> Mapping[str, str]:
        """Read the users of the values."""
        try:
            return (await self._client.get(CONFIG_MAPS, name, namespace=self._namespace)).data or {}
        except NotFound as missing:
            raise Missing(f"ConfigMap {name} with the users of the values does not exist") from missing

    async def publish(self, files: Files | None, *, report: str) -> None:
        """Make it so. Without files, only the report is written."""
        wanted: dict[str, dict[str, str]] = {}
        if files is not None:
            wanted |= dict(zip(self.login_names, files.logins, strict=True))
        kept = {key: text for key, text in self.people.items() if key != people.REPORT}
        wanted[self.people_name] = {**(kept if files is None else files.people), people.REPORT: report}
        for name, data in wanted.items():
            await self._write(name, data)

    async def _write(self, name: str, wanted: Mapping[str, str]) -> None:
        held = self._held[name]
        changes: dict[str, str | None] = {key: text for key, text in wanted.items() if held.data.get(key) != text}
        changes |= dict.fromkeys(held.data.keys() - wanted.keys())
        if not changes:
            return
        body = {"metadata": {"resourceVersion": held.version}, "data": changes}
        # Whatever comes of it: what we hold is no longer sure.
        del self._held[name]
        found = await self._client.patch(CONFIG_MAPS, name, Merge(body), namespace=self._namespace)
        self._held[name] = Held.of(found)
        self.writes += 1
        log.info("ConfigMap %s: wrote %s", name, ", ".join(sorted(changes)))
