"""One request and what became of it, in the words in which Kubernetes counts its own: verb, resource, code."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}


class Exchange(Struct, frozen=True, gc=False):
    """A code of 0 means that no answer came; `seconds` is the time from sending to the first byte of the answer."""

    method: str
    path: str
    code: int
    seconds: float
    watch: bool = False

    @property
    def verb(self) -> str:
        if self.method in _VERBS:
            return _VERBS[self.method]
        _, name = parts(self.path)
        if self.method == "DELETE":
            return "delete" if name else "deletecollection"
        return "watch" if self.watch else "get" if name else "list"

    @property
    def resource(self) -> str:
        return parts(self.path)[0]


def parts(path: str) -> tuple[str, str]:
    """Take a path apart into resource ("pods", "pods/binding") and name, the latter empty for a whole collection."""
    _, root, *rest = path.split("/")
    rest = rest[1:] if root == "api" else rest[2:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:  # noqa: PLR2004 - namespaces, its name, and what is in it
        rest = rest[2:]
    plural, name, *below = [*rest, "", ""][: max(len(rest), 2)]
    return "/".join((plural or "none", *filter(None, below))), name


Observer = Callable[[Exchange], None]


def unobserved(exchange: Exchange) -> None:
    """Count nothing."""
