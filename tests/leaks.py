"""Whether a secret stands in what somebody may read, however it is written there."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import DecodeError, json


def texts(found: Any) -> Iterator[str]:
    """All texts in an object of Kubernetes, keys too; those that are JSON themselves also as what they say."""
    match found:
        case str():
            yield found
            try:
                inner = json.decode(found) if found.lstrip()[:1] in {"{", "[", '"'} else None
            except DecodeError:
                inner = None
            yield from texts(inner)
        case Mapping():
            for key, value in found.items():
                yield from texts(key)
                yield from texts(value)
        case list():
            for value in found:
                yield from texts(value)


def is_in(secret: str, text: str) -> bool:
    """Whether a text has it, plainly or as JSON, Python or YAML write it."""
    ways = (secret, json.encode(secret).decode()[1:-1], repr(secret)[1:-1], secret.replace("'", "''"))
    return any(way in text for way in ways)
