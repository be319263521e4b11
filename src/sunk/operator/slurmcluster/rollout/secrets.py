"""Keys and passwords of a cluster: made once, by nobody but us, and never read, changed or deleted by us.

Whoever loses the key of auth/slurm loses every node and every job at once, so Secrets have no owner that could take
them along: they outlive the SlurmCluster and the release.

The operator has no right to read a Secret, not even its own: there is no way to have it for these alone, since their names
are not known before there is a cluster. So what is in one that is there already is not looked at. If a key is missing, the
Pod that mounts it cannot begin, and the probe Pod that comes first says so.
"""

import asyncio
import secrets
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from sunk.kube.api.client import STRICTLY, Client
from sunk.kube.api.retry import Repeat
from sunk.kube.errors import AlreadyExists
from sunk.kube.resource import Record, Resource
from sunk.operator.slurmcluster.builders.secrets import Content, NeededSecret

KEY_BYTES: Final = 1024
JWT_BYTES: Final = 32
PASSWORD_BYTES: Final = 24
RSA_BITS: Final = 3072
PUBLIC: Final = ".pub"

SECRETS: Final = Resource(Record, version="v1", plural="secrets")


def _ssh_key(key: ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey) -> dict[str, bytes]:
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    return {"": private, PUBLIC: key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n"}


MAKERS: Final[dict[Content, Callable[[], Mapping[str, bytes]]]] = {
    "auth": lambda: {"": secrets.token_bytes(KEY_BYTES)},
    "jwt": lambda: {"": secrets.token_bytes(JWT_BYTES)},
    "password": lambda: {"": secrets.token_urlsafe(PASSWORD_BYTES).encode()},
    "ssh-ed25519": lambda: _ssh_key(ed25519.Ed25519PrivateKey.generate()),
    "ssh-rsa": lambda: _ssh_key(rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS)),
}
"""What is made for a key of a Secret: texts, by what is put behind its name."""


async def ensure(client: Client, wanted: NeededSecret, *, namespace: str, labels: Mapping[str, str]) -> None:
    """Make the Secret unless it is there, or see that somebody else has made it."""
    if await exists(client, wanted.name, namespace=namespace):
        return
    if wanted.made:
        await _make(client, wanted, namespace=namespace, labels=labels)
    else:
        raise MissingSecret(
            f"{wanted.at}: Secret {namespace}/{wanted.name} does not exist. Create it with {_listed(wanted)}."
        )


class MissingSecret(Exception):  # noqa: N818 - named as what it is
    """A Secret that somebody else has to make is not there."""


async def exists(client: Client, name: str, *, namespace: str) -> bool:
    """Try to make it, and mean nothing by it: that needs no right to read what is in it."""
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
    query = STRICTLY | {"dryRun": "All"}
    try:
        await client.request("POST", SECRETS.path(namespace), query=query, body=body, repeat=Repeat.UNKNOWN)
    except AlreadyExists:
        return True
    return False


async def _make(client: Client, wanted: NeededSecret, *, namespace: str, labels: Mapping[str, str]) -> None:
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": wanted.name, "labels": dict(labels)},
        # A key of RSA takes a second to find, for which everybody else would wait.
        "data": await asyncio.to_thread(content, wanted),
    }
    try:
        await client.create(SECRETS, body, namespace=namespace)
    except AlreadyExists:
        return


def content(wanted: NeededSecret) -> dict[str, str]:
    """Something new under each key, as a Secret has it."""
    made = {f"{key}{end}": text for key, kind in wanted.keys.items() for end, text in MAKERS[kind]().items()}
    return {key: b64encode(text).decode() for key, text in made.items()}


def _listed(wanted: NeededSecret) -> str:
    return " and ".join(sorted(wanted.keys))
