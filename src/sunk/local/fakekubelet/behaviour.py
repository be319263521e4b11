"""How a kubelet behaves towards one Pod: its settings, overridden on the Node, overridden on the Pod."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from sunk.kube.api.client import Client
from sunk.kube.api.patch import Merge
from sunk.kube.resource import R, Resource

PREFIX: Final = "fake-kubelet.sunk/"
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|)")


class Behaviour(Struct, frozen=True):
    """Seconds, and what goes wrong. `exit_after` counts from the start of the container."""

    start_after: float = 0.0
    stop_after: float = 0.0
    exit_after: float | None = None
    exit_code: int = 0
    refuse: str = ""
    ready: bool = True
    silent: bool = False


class BadAnnotation(ValueError):  # noqa: N818 - the word says it
    """An annotation that cannot be understood. Better a Pod that is refused loudly than a test that waits for nothing."""


def key(name: str) -> str:
    """Spell an override as annotation key: `start_after` is `fake-kubelet.sunk/start-after`."""
    return PREFIX + name.replace("_", "-")


def annotations(**overrides: str | None) -> dict[str, str | None]:
    """Spell several; `None` takes an override back when used in a patch."""
    return {key(name): value for name, value in overrides.items()}


async def steer(client: Client, resource: Resource[R], name: str, *, namespace: str = "", **overrides: str | None) -> R:
    """Tell the kubelet how to treat one Pod or Node from now on, through the API as any test can."""
    patch = Merge({"metadata": {"annotations": annotations(**overrides)}})
    return await client.patch(resource, name, patch, namespace=namespace)


def seconds(text: str) -> float:
    """Read `2s`, `500ms`, `1.5m`, `1h` or plain seconds."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise BadAnnotation(f'"{text}" is not a duration: write it like 500ms, 2s, 1.5m or 1h')
    return float(match[1]) * _UNITS[match[2]]


def truth(text: str) -> bool:
    if text not in {"true", "false"}:
        raise BadAnnotation(f'"{text}" is neither true nor false')
    return text == "true"


def number(text: str) -> int:
    if not text.isdigit():
        raise BadAnnotation(f'"{text}" is not an exit code: write a number from 0 to 255')
    return int(text)


_READ: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    key("start_after"): ("start_after", seconds),
    key("stop_after"): ("stop_after", seconds),
    key("exit_after"): ("exit_after", seconds),
    key("exit_code"): ("exit_code", number),
    key("refuse"): ("refuse", str),
    key("ready"): ("ready", truth),
    key("silent"): ("silent", truth),
}


def overrides(annotations: Mapping[str, str]) -> dict[str, str]:
    """Pick the annotations that are meant for the fake kubelet."""
    return {name: text for name, text in annotations.items() if name.startswith(PREFIX)}


def overridden(behaviour: Behaviour, annotations: Mapping[str, str]) -> Behaviour:
    """Apply the overrides found among an object's annotations; keys under our prefix that mean nothing are refused."""
    changes: dict[str, Any] = {}
    for name, text in overrides(annotations).items():
        if name not in _READ:
            raise BadAnnotation(f"unknown annotation {name}; known: {', '.join(sorted(_READ))}")
        field, read = _READ[name]
        changes[field] = read(text)
    return msgspec.structs.replace(behaviour, **changes) if changes else behaviour
