"""Keys and passwords of a cluster: made once, by nobody but us, and never changed or deleted by us.

Whoever loses the key of auth/slurm loses every node and every job at once, so Secrets have no owner that could take
them along: they outlive the SlurmCluster and the release.
"""

import secrets
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import field

from sunk.kube.client import Client
from sunk.kube.errors import AlreadyExists, NotFound
from sunk.kube.resource import Record, Resource
from sunk.operator.slurmcluster.keys import Content, Needed

KEY_BYTES: Final = 1024
JWT_BYTES: Final = 32
PASSWORD_BYTES: Final = 24


class Secret(Record, frozen=True, gc=False, rename="camel"):
    """A Secret, of which only the names of its keys are read."""

    data: dict[str, str] = field(default_factory=dict)


SECRETS: Final = Resource(Secret, version="v1", plural="secrets")


MAKERS: Final[dict[Content, Callable[[], bytes]]] = {
    "auth": lambda: secrets.token_bytes(KEY_BYTES),
    "jwt": lambda: secrets.token_bytes(JWT_BYTES),
    "password": lambda: secrets.token_urlsafe(PASSWORD_BYTES).encode(),
}


async def ensure(client: Client, wanted: Needed, *, namespace: str, labels: Mapping[str, str]) -> None:
    """Make the Secret unless it is there. One with a key missing is somebody's mistake, and is not mended."""
    try:
        found = await client.get(SECRETS, wanted.name, namespace=namespace)
    except NotFound:
        if not wanted.made:
            raise Incomplete(
                f"{wanted.at}: there is no Secret {namespace}/{wanted.name}. Make it, with {_listed(wanted)}."
            ) from None
        await _make(client, wanted, namespace=namespace, labels=labels)
        return
    lacking = sorted(set(wanted.keys) - set(found.data))
    if lacking:
        raise Incomplete(_without(wanted, lacking, namespace=namespace))


class Incomplete(Exception):  # noqa: N818 - named as what it is
    """A Secret is there and lacks something."""


def _without(wanted: Needed, lacking: list[str], *, namespace: str) -> str:
    told = f"{wanted.at}: " if wanted.at else ""
    told += f"Secret {namespace}/{wanted.name} has no {', '.join(lacking)}: put it in"
    anew = ", or delete the Secret to have all of it made anew, which cuts off everything that uses the old one"
    return told + (anew if wanted.made else "")


async def _make(client: Client, wanted: Needed, *, namespace: str, labels: Mapping[str, str]) -> None:
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": wanted.name, "labels": dict(labels)},
        "data": {key: b64encode(MAKERS[content]()).decode() for key, content in wanted.keys.items()},
    }
    try:
        await client.create(SECRETS, body, namespace=namespace)
    except AlreadyExists:
        return


def _listed(wanted: Needed) -> str:
    return " and ".join(sorted(wanted.keys))
