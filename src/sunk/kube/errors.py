"""What Kubernetes answers when it does not do as told, as exceptions one can match on.

Two families, because they call for different care. An `ApiError` is an answer: the request was not carried out.
`Unreachable` is the lack of one: a write may or may not have happened, and only a fresh read can tell.
"""

# ruff: noqa: N818 - `except NotFound` reads as what happened; a suffix would say "error" twice

import contextlib
import re
from typing import Final

from msgspec import DecodeError, Struct, ValidationError, json


class KubeError(Exception):
    """Anything that went wrong between us and the API server."""


class Unreachable(KubeError):
    """No answer. Whether a write took place is unknown until the object is read again, unless it was never sent."""

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent: Final = sent


class Unreadable(KubeError):
    """The server answered well, but with an object that does not fit its record."""


class Cause(Struct, frozen=True, gc=False):
    """One of the reasons of a refusal; `field` is the path of what was wrong, where there is one."""

    reason: str = ""
    message: str = ""
    field: str = ""


class _Details(Struct, frozen=True, rename="camel"):
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: float = 0


class Status(Struct, frozen=True):
    """The body of every refusal, and of an ERROR event in a watch."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


class ApiError(KubeError):
    """The API server refused. `asked` is the request as method and path."""

    def __init__(self, status: Status, *, asked: str) -> None:
        super().__init__(f"{asked}: {status.code} {status.reason or 'without a reason'}: {status.message}")
        self.asked: Final = asked
        self.status: Final = status.code
        self.reason: Final = status.reason
        self.message: Final = status.message
        self.causes: Final = status.details.causes if status.details else ()


class Unauthorized(ApiError):
    """The server does not know who we are: the token is missing, wrong or too old."""


class Forbidden(ApiError):
    """The server knows us and says no. A create in a namespace that is on its way out ends here too."""


class NotFound(ApiError):
    """No such object, or no such resource at all (a CRD that is not installed)."""


class AlreadyExists(ApiError):
    """A create met an object of the same name."""


class Conflict(ApiError):
    """The object is not the one, or not the version, that the write was decided on."""


class Gone(ApiError):
    """The resourceVersion or the page asked for is no longer kept: list again."""


class Invalid(ApiError):
    """The object breaks a rule; `causes` says which, field by field."""


class TooManyRequests(ApiError):
    """Not now: the server is busy, or a disruption budget forbids the eviction. `retry_after` is in seconds."""

    def __init__(self, status: Status, *, asked: str, retry_after: float = 0) -> None:
        super().__init__(status, asked=asked)
        stated = status.details.retry_after_seconds if status.details else 0
        self.retry_after: Final = max(retry_after, stated, 1.0)


_BY_CODE: Final[dict[int, type[ApiError]]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
}
_ABOUT_OBJECTS: Final = frozenset({404, 409, 410, 422})
_GLANCE: Final = 500
_SHOWN: Final = 120
_TAG: Final = re.compile(r"<[^>]*>")
_UNDECLARED: Final = "field not declared in schema"
_status = json.Decoder(Status)


def somebody_else(body: bytes, *, asked: str) -> Unreachable:
    """Build the exception for an answer that says yes and is no object of Kubernetes: a gateway, a sign-in page.

    It is the lack of an answer, and no answer that could not be read: of the server itself nothing was heard.
    """
    shown = " ".join(_TAG.sub(" ", body[:_GLANCE].decode(errors="replace")).split())[:_SHOWN] or "nothing"
    return Unreachable(
        f"{asked}: something other than the API server answered, such as a gateway: '{shown}'; check the address, and "
        "that proxies pass requests on"
    )


def refusal(body: bytes, *, code: int, asked: str, retry_after: str = "") -> ApiError:
    """Build the exception for a refusing answer, which need not be JSON: proxies answer in prose."""
    try:
        status = _status.decode(body)
    except (DecodeError, ValidationError, RecursionError):
        status = Status(message=body[:_GLANCE].decode(errors="replace").strip())
        if code in _ABOUT_OBJECTS and body.lstrip().startswith(b"<"):
            # A page, so not of the API server. It knows nothing of the object, which must not pass for gone.
            return ApiError(Status(message=status.message, code=code), asked=asked)
    return from_status(status, code=code, asked=asked, retry_after=retry_after)


def from_status(status: Status, *, code: int, asked: str, retry_after: str = "") -> ApiError:
    status = Status(message=status.message, reason=status.reason, code=code or status.code, details=status.details)
    if status.code == 429:  # noqa: PLR2004 - the number is the name
        seconds = 0.0
        with contextlib.suppress(ValueError):  # the header may also hold a date, which no API server sends
            seconds = float(retry_after or 0)
        return TooManyRequests(status, asked=asked, retry_after=seconds)
    if _UNDECLARED in status.message:
        # Server-side apply answers 500 to a misspelt field, as if it were the server's trouble and worth a repeat.
        status = Status(message=status.message, reason="Invalid", code=422, details=status.details)
    kind = AlreadyExists if status.reason == "AlreadyExists" else _BY_CODE.get(status.code, ApiError)
    return kind(status, asked=asked)
