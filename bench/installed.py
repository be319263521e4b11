"""A local cluster with Slurm on it, as `make up` makes one, for as long as a bench lasts."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from sunk.local import install as installing
from sunk.local.install import Tools
from sunk.local.kubernetes import assets, cluster as clusters
from sunk.local.kubernetes.spec import plain


@contextmanager
def installed(name: str, *, count: int) -> Iterator[tuple[Tools, float]]:
    """Give what reaches it, and the seconds from nothing to its first job, all built."""
    clusters.remove(name)
    there = assets.fill()
    began = time.monotonic()
    made = clusters.up(plain(name, count=count), assets=there)
    try:
        installing.install(made)
        yield Tools(folder=there.parts.kubectl.parent, kubeconfig=made.kubeconfig), time.monotonic() - began
    finally:
        clusters.down(name)
