"""What hooks are given and what they answer, and the answers that callers get before a hook is asked.

Every answer is JSON. Those here have a `message` for people. None of them is a 408: to a prolog that means that other
work did not leave the Node.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec import Struct

from sunk.service.hooks.claims import Caller

MOST_BODY: Final = 64 * 1024


class HookCall(Struct, frozen=True):
    """A call that was admitted. What the body says is for the hook to judge."""

    caller: Caller
    node: str
    body: bytes


class HookAnswer(Struct, frozen=True):
    status: int
    body: dict[str, Any]


Hook = Callable[[HookCall], Awaitable[HookAnswer]]
"""It is cancelled if the caller hangs up or the process stops, and called again then: it must be able to begin anew."""
Admit = Callable[[Caller, str], HookAnswer | None]
"""Whether a caller may speak for a node: None if it may, else the answer."""


def told(status: int, message: str) -> HookAnswer:
    return HookAnswer(status, {"message": message})


NO_BODY: Final = told(400, "The body did not arrive in time, or not whole.")
NO_HTTP: Final = told(400, "This is no HTTP request that can be read.")
NO_TOKEN: Final = told(
    401, "No valid token: send the service-account token of your Pod, made for this server, as Authorization: Bearer."
)
NO_HOOK: Final = told(404, "There is no such hook here. The path is /v1/nodes/<node>/<hook>.")
TOO_LARGE: Final = told(413, f"The body is larger than {MOST_BODY} bytes.")
TOO_MANY: Final = told(429, "This Pod has too many calls waiting already; try again when one is answered.")
BROKEN: Final = told(500, "This hook failed unexpectedly; the log of the server says why.")
STOPPING: Final = told(503, "stopping; try again")
FULL: Final = told(503, "Too many calls are waiting; try again.")
UNVERIFIED: Final = told(503, "The token could not be verified at the moment; try again.")
TOO_LONG: Final = told(503, "This took too long; try again.")
HUNG_UP: Final = 499
"""Nobody was left to be answered. Only counted."""


def wrong_method(hook: str, *, method: str) -> HookAnswer:
    return told(405, f"{hook} is called by {method}.")
