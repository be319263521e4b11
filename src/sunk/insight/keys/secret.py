"""The Secret with the keys of a cluster, read and written as a whole.

`slurm.key` follows the default key of `slurm.jwks`: programs that know only the first are believed at every step.
"""

import base64
from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from sunk.kube.api.client import Client
from sunk.kube.api.patch import Merge
from sunk.kube.errors import Conflict, NotFound
from sunk.kube.resource import Record, Resource
from sunk.model.contract import clusterobjects, keyset
from sunk.model.contract.keyset import SLURM_JWKS, SLURM_KEY, KeySet
from sunk.model.refusal import Refusal

KEY_BYTES: Final = 1024


class Secret(Record, frozen=True, gc=False, rename="camel"):
    data: dict[str, str] = field(default_factory=dict)


SECRETS: Final = Resource(Secret, version="v1", plural="secrets")


class Keyring(Struct, frozen=True):
    name: str
    version: str
    """The resourceVersion that was read."""
    keys: KeySet


async def load(client: Client, namespace: str, *, cluster: str) -> Keyring:
    name = clusterobjects.named(cluster, clusterobjects.AUTH_SLURM)
    try:
        secret = await client.get(SECRETS, name, namespace=namespace)
    except NotFound:
        raise Refusal(
            f"Secret {namespace}/{name} does not exist. Set the name of the SlurmCluster with --cluster."
        ) from None
    if jwks := secret.data.get(SLURM_JWKS):
        keys = keyset.read(base64.b64decode(jwks))
    elif key := secret.data.get(SLURM_KEY):
        keys = keyset.alone(base64.b64decode(key))
    else:
        raise Refusal(f"Secret {namespace}/{name} has neither {SLURM_JWKS} nor {SLURM_KEY}.")
    return Keyring(name, version=secret.metadata.resource_version, keys=keys)


async def change(client: Client, namespace: str, *, cluster: str, to: Callable[[KeySet], KeySet]) -> KeySet:
    """Write what `to` makes of the keys, unless somebody else has written meanwhile."""
    keyring = await load(client, namespace, cluster=cluster)
    wanted = to(keyring.keys)
    files = {SLURM_JWKS: wanted.encode(), SLURM_KEY: wanted.default.value}
    data = {name: base64.b64encode(content).decode() for name, content in files.items()}
    body = {"metadata": {"resourceVersion": keyring.version}, "data": data}
    try:
        await client.patch(SECRETS, keyring.name, Merge(body), namespace=namespace)
    except Conflict:
        raise Refusal(
            f"Secret {namespace}/{keyring.name} was changed in the meantime. Check it and try again."
        ) from None
    return wanted
