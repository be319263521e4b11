"""The official client's informer: a thread that lists, then watches, and keeps its cache of full models."""

import os
import sys
import threading

from kubernetes import client, config  # type: ignore[import-not-found]
from kubernetes.informer import ADDED, SharedInformer  # type: ignore[import-not-found]

from bench.kube.effort import Effort


def main(kubeconfig: str, namespace: str, expected: int) -> None:
    effort = Effort()
    config.load_kube_config(kubeconfig)
    informer = SharedInformer(client.CoreV1Api().list_namespaced_pod, namespace=namespace)
    # It does not say when it is synced. Its cache is filled before the first event is told.
    told = threading.Event()
    informer.add_event_handler(ADDED, lambda _: told.set())
    informer.start()
    told.wait()
    found = len(informer.cache.list_keys())
    effort.tell(found)
    sys.stdout.flush()
    os._exit(0 if found == expected else 1)  # its thread has no end that one would want to wait for


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
