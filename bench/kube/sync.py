"""Read all Pods of a namespace into a store, as every controller of ours does when it starts, and say what it cost."""

import sys
from collections.abc import Iterable

from bench.kube.effort import Effort
from sunk.kube.api.client import Client, Scope
from sunk.kube.auth import access
from sunk.kube.cache.collection import Collection
from sunk.kube.core import PODS, Pod
from sunk.kube.process.loop import run
from sunk.kube.tasks import running


def by_node(pod: Pod) -> Iterable[str]:
    return (pod.spec.node_name,)


async def main(kubeconfig: str, namespace: str) -> None:
    effort = Effort()
    async with Client(access.from_kubeconfig(kubeconfig)) as client:
        pods = Collection(client, PODS, Scope(namespace=namespace), indexes={"node": by_node})
        async with running({"follow": pods.run()}):
            await pods.store.complete()
            effort.tell(len(pods.store))


if __name__ == "__main__":
    run(main(*sys.argv[1:]))
