"""Write to the server: create Pods, change them as fast as may be, or one at a time with pauses.

Prints one line of JSON: how often it wrote, the last version of every Pod, and for single changes when each was sent
and acknowledged, by the monotonic clock that all processes of a machine share.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.kube import pods
from sunk.kube.api.client import Client
from sunk.kube.api.patch import Merge, Strategic
from sunk.kube.auth import access
from sunk.kube.core import PODS
from sunk.kube.process.loop import run

HANDS = 16


class Write(Struct, frozen=True):
    """One change: of which Pod, to which version, when it was sent and when its answer was there."""

    name: str
    version: int
    sent: float
    acknowledged: float


class Written(Struct, frozen=True):
    """All that one writer did; `versions` are the last ones, by name. Only single changes are told one by one."""

    count: int
    versions: dict[str, int]
    singly: tuple[Write, ...] = ()


class Writer:
    def __init__(self, client: Client, *, namespace: str, numbers: range) -> None:
        self._client = client
        self._namespace = namespace
        self._numbers = numbers
        self._count = 0
        self._versions: dict[str, int] = {}

    async def fill(self) -> Written:
        async def create(number: int) -> None:
            await self._client.create(PODS, pods.body(number), namespace=self._namespace)
            running = Strategic({"status": pods.status(number)})
            await self._client.patch(PODS, pods.name(number), running, namespace=self._namespace, subresource="status")

        await in_parallel(create, self._numbers)
        return Written(len(self._numbers), {})

    async def flood(self, seconds: float) -> Written:
        end = time.monotonic() + seconds

        def turns() -> Iterable[int]:
            while True:
                for number in self._numbers:
                    if time.monotonic() > end:
                        return
                    yield number

        await in_parallel(self._change, turns())
        return Written(self._count, self._versions)

    async def trickle(self, *, pause: float) -> Written:
        singly = []
        for number in self._numbers:
            await asyncio.sleep(pause)
            singly.append(await self._change(number))
        return Written(self._count, self._versions, tuple(singly))

    async def _change(self, number: int) -> Write:
        self._count += 1
        name, sent = pods.name(number), time.monotonic()
        change = Merge(
            {"status": {"message": f"changed at {sent}"}}
        )  # a text that was there already would be no change
        record = await self._client.patch(PODS, name, change, namespace=self._namespace, subresource="status")
        version = int(record.metadata.resource_version)
        # Hands may overtake each other; which change came last is the server's to say.
        self._versions[name] = max(version, self._versions.get(name, 0))
        return Write(name, version, sent, time.monotonic())


async def in_parallel(act: Callable[[int], Awaitable[object]], numbers: Iterable[int]) -> None:
    todo = iter(numbers)

    async def hand() -> None:
        for number in todo:
            await act(number)

    async with asyncio.TaskGroup() as group:
        for number in range(HANDS):
            group.create_task(hand(), name=f"writer: hand {number}")


async def main(  # noqa: PLR0913 - one keyword per option
    act: str, *, kubeconfig: Path, namespace: str, first: int, count: int, seconds: float
) -> Written:
    async with Client(access.from_kubeconfig(kubeconfig)) as client:
        writer = Writer(client, namespace=namespace, numbers=range(first, first + count))
        match act:
            case "fill":
                return await writer.fill()
            case "flood":
                return await writer.flood(seconds)
            case _:
                return await writer.trickle(pause=seconds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("act", choices=("fill", "flood", "trickle"))
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--first", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=0.0, help="length of a flood, or of a pause between changes")
    print(msgspec.json.encode(run(main(**vars(parser.parse_args())))).decode())
