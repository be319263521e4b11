"""Run a program in a container of a Pod, as `kubectl exec` does, and take what it says.

It goes over a WebSocket (`v4.channel.k8s.io`, which all supported servers speak): each message begins with the number of a
channel, and the last one, on a channel of its own, is a Status that has the exit code. Arguments are a list from here to
the program; no shell reads them on the way. Nothing can be typed in.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from msgspec import DecodeError, Struct, json

from sunk.kube.api.client import Client
from sunk.kube.core import PODS
from sunk.kube.errors import ApiError, Cause, Status, Unreachable, from_status
from sunk.kube.resource import Key

PROTOCOL: Final = "v4.channel.k8s.io"
PATIENCE: Final = 20.0
"""Seconds for a program to end. One that hangs is left to itself: the kubelet ends it with the connection."""
MOST: Final = 4 << 20
"""Bytes that are taken of each output: what a container says may be anybody's."""
_STDOUT, _STDERR, _STATUS = 1, 2, 3
_EXIT_CODE: Final = "ExitCode"


class Execution(Struct, frozen=True):
    """How a program has ended, and what it said; longer outputs are cut off."""

    code: int
    stdout: str = ""
    stderr: str = ""

    @property
    def ok(self) -> bool:
        return self.code == 0


class _Details(Struct, frozen=True):
    causes: tuple[Cause, ...] = ()


class ExitStatus(Struct, frozen=True):
    """The message on the last channel."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


class Transcript:
    """Everything that came, by channel."""

    def __init__(self, *, most: int = MOST) -> None:
        self._most = most
        self._heard: dict[int, bytearray] = {_STDOUT: bytearray(), _STDERR: bytearray(), _STATUS: bytearray()}

    def hear(self, message: bytes) -> None:
        channel = self._heard.get(message[0]) if message else None
        if channel is not None:
            channel += message[1 : 1 + max(self._most - len(channel), 0)]

    def text(self, channel: int) -> str:
        return self._heard[channel].decode(errors="replace")

    def outcome(self, *, asked: str) -> Execution:
        """How it has ended. Raises an ApiError if nothing was run, and Unreachable if nobody said what became of it."""
        try:
            ended = json.decode(bytes(self._heard[_STATUS]), type=ExitStatus)
        except DecodeError:
            raise Unreachable(f"{asked}: the connection ended before the program did") from None
        return Execution(_code(ended, asked=asked), stdout=self.text(_STDOUT), stderr=self.text(_STDERR))


def _code(ended: ExitStatus, *, asked: str) -> int:
    if ended.status == "Success":
        return 0
    causes = ended.details.causes if ended.details else ()
    told = next((one.message for one in causes if one.reason == _EXIT_CODE), "")
    if told.isascii() and told.isdigit():
        return int(told)
    raise _refused(ended, asked=asked)


def _refused(ended: ExitStatus, *, asked: str) -> ApiError:
    return from_status(
        Status(message=ended.message, reason=ended.reason, code=ended.code), code=ended.code, asked=asked
    )


async def execute(
    client: Client, pod: Key, command: Sequence[str], *, container: str, patience: float = PATIENCE
) -> Execution:
    """Run a program in a container and wait for its end. Raises a KubeError if it could not be run."""
    path = PODS.path(pod.namespace, pod.name, subresource="exec")
    query = [("container", container), ("stdout", "true"), ("stderr", "true"), *(("command", each) for each in command)]
    heard = Transcript()
    try:
        async with asyncio.timeout(patience), client.messages(path, query, protocol=PROTOCOL) as messages:
            async for message in messages:
                heard.hear(message)
    except TimeoutError:
        raise Unreachable(f"{command[0]} in Pod {pod}: no answer within {patience:.0f} s") from None
    return heard.outcome(asked=f"{command[0]} in Pod {pod}")
