"""What the values name and somebody else has to make: claims and ConfigMaps.

Kubernetes takes a Pod that mounts something which is not there, and never starts it. slurmctld's Deployment would have
stopped the old Pod by then, so it is looked for before anything is changed.
"""

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from sunk.kube.api.client import Client
from sunk.kube.core import CONFIG_MAPS
from sunk.kube.errors import NotFound
from sunk.kube.resource import Resource
from sunk.model.contract.keyset import SLURM_JWKS, SLURM_KEY
from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.builders import secrets
from sunk.operator.slurmcluster.resolve import ResolvedCluster
from sunk.operator.slurmcluster.rollout.apply import CLAIMS
from sunk.operator.slurmcluster.slurmconf.conf import JWT_KEY

ETC_FILES: Final = "slurmConfig.slurmCtld.etcConfigMap"
_KEYS: Final = (SLURM_KEY, SLURM_JWKS, JWT_KEY)
LARGEST: Final = 768 * 1024
"""Bytes. They lie beside our own files in one ConfigMap, which may have a mebibyte."""


class ReferencedObject(Struct, frozen=True):
    at: str
    """Where it stands in the values."""
    kind: str
    name: str

    @property
    def resource(self) -> Resource[Any]:
        return CLAIMS if self.kind == "PersistentVolumeClaim" else CONFIG_MAPS


def references(cluster: ResolvedCluster) -> list[ReferencedObject]:
    claims = [ReferencedObject(at, "PersistentVolumeClaim", name) for at, name in _claims(cluster) if name]
    return claims + [ReferencedObject(at, "ConfigMap", name) for at, name in _config_maps(cluster) if name]


async def check(client: Client, cluster: ResolvedCluster) -> None:
    """Refuse a cluster that could not start for want of what it names."""
    for referenced in references(cluster):
        try:
            await client.get(referenced.resource, referenced.name, namespace=cluster.namespace)
        except NotFound:
            raise Refusal(_missing(referenced, cluster)) from None


async def etc_files(client: Client, cluster: ResolvedCluster) -> dict[str, str]:
    """People's own files for /etc/slurm, by name.

    They are copied into the configuration and not mounted as they are: an edit is then tried like everything else, and
    reaches slurmctld only if it is good.
    """
    name = cluster.spec.slurm_config.slurm_ctld.etc_config_map
    if not name:
        return {}
    try:
        config_map = await client.get(CONFIG_MAPS, name, namespace=cluster.namespace)
    except NotFound:
        raise Refusal(_missing(ReferencedObject(ETC_FILES, "ConfigMap", name), cluster)) from None
    if config_map.binary_data:
        raise Refusal(f"{ETC_FILES}: {min(config_map.binary_data)} of ConfigMap {name} is not text. Remove it.")
    size = sum(len(text.encode()) for text in config_map.data.values())
    if size > LARGEST:
        raise Refusal(f"{ETC_FILES}: the files of ConfigMap {name} have {size} bytes; at most {LARGEST} fit.")
    return {file: text for file, text in config_map.data.items() if file not in _KEYS}


def _missing(referenced: ReferencedObject, cluster: ResolvedCluster) -> str:
    return f"{referenced.at}: {referenced.kind} {cluster.namespace}/{referenced.name} does not exist. Create it."


def _claims(cluster: ResolvedCluster) -> Iterator[tuple[str, str]]:
    yield "controller.state.existingClaim", cluster.spec.controller.state.existing_claim
    if secrets.serves_database(cluster):
        yield "mysql.storage.existingClaim", cluster.spec.mysql.storage.existing_claim
    for number, mount in enumerate(cluster.spec.compute.mounts):
        yield f"compute.mounts[{number}].pvc", mount.pvc


def _config_maps(cluster: ResolvedCluster) -> Iterator[tuple[str, str]]:
    config = cluster.spec.slurm_config
    yield "users.configMap", cluster.spec.users.config_map
    yield ETC_FILES, config.slurm_ctld.etc_config_map
    yield "slurmConfig.slurmd.prologConfigMap", config.slurmd.prolog
    yield "slurmConfig.slurmd.epilogConfigMap", config.slurmd.epilog
