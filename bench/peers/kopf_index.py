"""kopf's in-memory index, with the Pods themselves as values; an async handler, which is its quicker sort."""

import asyncio
import logging
import os
import sys
from typing import Any

import kopf  # type: ignore[import-not-found]

from bench.kube.effort import Effort


class Indexed:
    """Counts what the index has got; kopf itself does not say when its index is complete."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.count = 0
        self.done = asyncio.Event()

    async def index(self, *, namespace: str, name: str, body: Any, **_: Any) -> dict[tuple[str, str], Any]:
        self.count += 1
        if self.count == self.expected:
            # The value that is returned here is put into the index before anything else can run.
            asyncio.get_running_loop().call_soon(self.done.set)
        return {(namespace, name): body}


async def main(kubeconfig: str, namespace: str, expected: int) -> None:
    logging.disable(logging.WARNING)
    os.environ["KUBECONFIG"] = kubeconfig
    indexed, registry, settings = Indexed(expected), kopf.OperatorRegistry(), kopf.OperatorSettings()
    settings.watching.initial_streaming = bool(os.environ.get("KOPF_STREAMING"))
    kopf.on.login(registry=registry)(kopf.login_with_kubeconfig)
    kopf.index("v1", "pods", id="pods", registry=registry)(indexed.index)
    effort = Effort()
    running = asyncio.create_task(
        kopf.operator(registry=registry, settings=settings, standalone=True, namespaces=[namespace])
    )
    await indexed.done.wait()
    effort.tell(indexed.count)
    os._exit(0 if not running.done() else 1)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
