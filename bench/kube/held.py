"""Hold many Pods in memory, made from one as the server gave it, and say how long a full garbage collection takes.

This runs in the files of our own image, on the Python that we ship. It has nothing but the package and this text, and
no /proc: whoever started it weighs it from outside, when it says "bare" and when it says "full".

The Pods come through the whole of a collection: only the connection is replaced, by one that makes up the bytes.
"""

import asyncio
import gc
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from sunk.kube.api.client import Client
from sunk.kube.auth.access import Access
from sunk.kube.auth.credentials import Nobody
from sunk.kube.cache.collection import Collection
from sunk.kube.core import PODS, Pod
from sunk.kube.process.loop import run
from sunk.kube.tasks import running

CHUNK = 40
"""Pods per read, about as many as a connection gives at once."""
COLLECTIONS = 5


class Made:
    """A stream that ends its list after `count` Pods and is silent from then on."""

    def __init__(self, pod: Callable[[int], bytes], count: int) -> None:
        self._chunks = self._generate(pod, count)

    async def readany(self) -> bytes:
        await asyncio.sleep(0)
        chunk = next(self._chunks, None)
        if chunk is None:
            await asyncio.sleep(float("inf"))
        return chunk or b""

    def gather(self, size: int) -> None:
        """Nothing is to be gathered where nothing comes."""

    @staticmethod
    def _generate(pod: Callable[[int], bytes], count: int) -> Iterator[bytes]:
        for start in range(0, count, CHUNK):
            some = range(start, min(start + CHUNK, count))
            yield b"".join(b'{"type":"ADDED","object":' + pod(number) + b"}\n" for number in some)
        end = b'{"resourceVersion":"99999999","annotations":{"k8s.io/initial-events-end":"true"}}'
        yield b'{"type":"BOOKMARK","object":{"metadata":' + end + b"}}\n"


class Generated(Client):
    def __init__(self, pod: Callable[[int], bytes], count: int) -> None:
        super().__init__(Access(server="http://nowhere", tls=None, credentials=Nobody()))
        self._pod = pod
        self._count = count

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str]) -> AsyncIterator[Any]:  # noqa: ARG002
        yield Made(self._pod, self._count)


def alike(template: bytes, *, number: bytes, uid: bytes, version: bytes, node: bytes) -> Callable[[int], bytes]:
    """Make Pods that differ from the given one in all that tells Pods from each other, eight of them on a node."""

    def pod(other: int) -> bytes:
        text = template.replace(version, b"%d" % (10_000_000 + other)).replace(node, b"machine-%d" % (other // 8))
        return text.replace(uid, b"%08d-1111-4222-8333-444455556666" % other).replace(number, b"%05d" % other)

    return pod


def by_node(pod: Pod) -> Iterable[str]:
    return (pod.spec.node_name,)


def pause() -> float:
    """Collect garbage, all of it. Seconds of CPU, so that a busy machine does not count as a pause."""
    began = time.thread_time()
    gc.collect()
    return time.thread_time() - began


def longest() -> float:
    return max(pause() for _ in range(COLLECTIONS))


def say(word: str) -> None:
    print(word, flush=True)
    sys.stdin.readline()


async def main(count: int) -> None:
    template, number, uid, version, node = sys.stdin.readline().strip().encode().split(b"\t")
    pod = alike(template, number=number, uid=uid, version=version, node=node)
    without = longest()
    say("bare")
    async with Generated(pod, count) as client:
        pods = Collection(client, PODS, indexes={"node": by_node})
        async with running({"follow": pods.run()}):
            await pods.store.complete()
            if len(pods.store) != count:
                raise SystemExit(f"{count} Pods were made, and {len(pods.store)} are held: mend `alike`")
            say("full")
            print(f"{sys.version_info.major}.{sys.version_info.minor}", without, longest(), flush=True)


if __name__ == "__main__":
    run(main(int(sys.argv[1])))
