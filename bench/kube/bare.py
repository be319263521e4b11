"""Read the same objects as `bench.kube.sync`, byte for byte, and throw them away: what no client can do without.

It is aiohttp and nothing else, as it comes, on the loop that we use ourselves: it asks in HTTP/1.1 and is woken for
every change, which a client can do without (`sunk.kube.api.stream`). The end is found by looking at the last bytes that
came. With a third argument it goes on to read changes, counts their lines, and says what that took.
"""

import asyncio
import json
import sys

import aiohttp

from bench.kube.effort import Effort
from bench.kube.span import span
from sunk.kube.auth import access
from sunk.kube.core import PODS
from sunk.kube.process.loop import run

END = b'"k8s.io/initial-events-end":"true"'
LINE = 4096
"""More than the bookmark has that ends the list."""
QUERY = {
    "watch": "1",
    "allowWatchBookmarks": "true",
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "timeoutSeconds": "420",
}
PLAIN = {"Accept": "application/json", "Accept-Encoding": "identity"}


async def main(kubeconfig: str, namespace: str, go_on: str = "") -> None:
    effort = Effort()
    found = access.from_kubeconfig(kubeconfig)
    proof = await found.credentials.proof()
    headers = PLAIN | ({"Authorization": proof.authorization} if proof.authorization else {})
    async with (
        aiohttp.ClientSession() as session,
        session.get(
            found.server + PODS.path(namespace), params=QUERY, headers=headers, ssl=proof.tls or found.tls or True
        ) as reply,
    ):
        size = await discard(reply.content)
        if go_on:
            await follow(reply.content)
        else:
            effort.tell(size)


async def discard(content: aiohttp.StreamReader) -> int:
    """Read up to the end of the list; returns the number of bytes."""
    size, last = 0, b""
    while END not in last:
        chunk = await content.readany()
        size += len(chunk)
        last = last[-LINE:] + chunk[-LINE:]
    return size


async def follow(content: aiohttp.StreamReader) -> None:
    changes = 0

    async def count() -> None:
        nonlocal changes
        while chunk := await content.readany():
            end = -1
            while (end := chunk.find(b"\n", end + 1)) >= 0:  # `count` would take a quarter of all that is measured
                changes += 1

    counting = asyncio.create_task(count(), name="count")
    async with span() as measured:
        changes = 0
    counting.cancel()
    print(json.dumps({"cpu": measured.cpu, "changes": changes}), flush=True)


if __name__ == "__main__":
    run(main(*sys.argv[1:]))
