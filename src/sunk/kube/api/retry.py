"""Which requests may be sent again, and when.

Two questions decide it: may the first one have been carried out, and does it do harm to carry it out twice? The server
says 429 before it does anything, and where there was no connection nothing left the house: such a request is *undone*
and can be sent again as if for the first time. After any 5xx, and where the answer was lost, it is *unknown*.

| request | undone | unknown | because |
| --- | --- | --- | --- |
| get, list | again | again | reading changes nothing |
| apply | again | again | it says all that we want; said twice it is the same |
| replace, merge or strategic patch that carries uid or resourceVersion | again | again | meets that object or nothing; \
what took place the first time answers Conflict, and a caller reads again on Conflict anyway |
| the same without either | again | no | may undo what somebody wrote in between |
| JSON patch | again | no | `add` to a list is done twice |
| delete with preconditions | again | again | NotFound then means: gone, as wanted |
| delete without | again | no | may meet the next object of that name |
| create | again | no | a second generateName is a second object; a second name answers AlreadyExists, as if it \
were somebody else's |
| post to a subresource: binding, eviction, token | no | no | what it was decided on may have passed while we wait; for an \
eviction 429 is the budget's own answer |

aiohttp by itself repeats a get, replace or delete once when a connection that was kept open turns out to be closed; one
more reason for preconditions on whatever destroys.

A watch has its own pace and asks nobody. Everything else an API server can say (403, 404, 409, 422 …) is an answer and
is never asked for twice.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Any, Final, TypeVar

from msgspec import Struct

from sunk.kube.api.patch import Apply, Body, Json, Patch
from sunk.kube.errors import ApiError, KubeError, TooManyRequests, Unreachable
from sunk.model.backoff import BackOff

log = logging.getLogger(__name__)

T = TypeVar("T")

_SERVER_TROUBLE: Final = 500


class Repeat(Enum):
    """When a request may be sent again: never, if it was surely not carried out, or whatever became of it."""

    NEVER = 0
    UNDONE = 1
    UNKNOWN = 2


class Retry(Struct, frozen=True):
    """How long and how eagerly to repeat, in seconds. No attempt begins later than `within` after the first."""

    within: float = 20.0
    first_delay: float = 0.1
    longest_delay: float = 5.0

    def pause(self, trouble: KubeError, *, attempt: int, spent: float) -> float | None:
        """Say how long to wait before the next attempt; None if there is no time left for one."""
        asked = trouble.retry_after if isinstance(trouble, TooManyRequests) else 0.0
        pause = max(asked, BackOff(self.first_delay, self.longest_delay).jittered(attempt + 1))
        return pause if spent + pause <= self.within else None


ONCE: Final = Retry(within=0.0)
"""Never again: that is for each caller to decide."""


def left_undone(trouble: KubeError) -> bool:
    return isinstance(trouble, TooManyRequests) or (isinstance(trouble, Unreachable) and not trouble.sent)


def left_unknown(trouble: KubeError) -> bool:
    if isinstance(trouble, ApiError):
        return trouble.status >= _SERVER_TROUBLE
    return isinstance(trouble, Unreachable) and trouble.sent


def may_repeat(trouble: KubeError, *, repeat: Repeat) -> bool:
    if repeat is Repeat.NEVER:
        return False
    return left_undone(trouble) or (repeat is Repeat.UNKNOWN and left_unknown(trouble))


def of_body(body: object) -> Repeat:
    """Judge a whole object or a merge patch by whether it says which object, or which version, it means."""
    metadata = body.get("metadata") if isinstance(body, Mapping) else getattr(body, "metadata", None)
    return Repeat.UNKNOWN if _field(metadata, "uid") or _field(metadata, "resourceVersion") else Repeat.UNDONE


def of_patch(patch: Patch) -> Repeat:
    if isinstance(patch, Apply):
        return Repeat.UNKNOWN
    return Repeat.UNDONE if isinstance(patch, Json) else of_body(patch.body)


def _field(metadata: Body | None, name: str) -> Any:
    if isinstance(metadata, Mapping):
        return metadata.get(name)
    return getattr(metadata, {"resourceVersion": "resource_version"}.get(name, name), None)


async def persist(send: Callable[[], Awaitable[T]], *, retry: Retry, repeat: Repeat) -> T:
    """Send until there is an answer, or a failure that must not or can no longer be repeated; raise that one."""
    clock = asyncio.get_running_loop().time
    began, attempt, unknown = clock(), 0, False
    while True:
        try:
            return await send()
        except KubeError as trouble:
            pause = retry.pause(trouble, attempt=attempt, spent=clock() - began)
            if pause is None or not may_repeat(trouble, repeat=repeat):
                if unknown and left_undone(trouble):  # this one was not carried out, but an earlier one may have been
                    raise Unreachable(f"{trouble}; an earlier attempt got no answer") from trouble
                raise
            log.debug("%s; retrying in %.1f s", trouble, pause)
            unknown = unknown or left_unknown(trouble)
        attempt += 1
        await asyncio.sleep(pause)
