"""What the tests under unrest have in common: the cluster they are on, and how long they wait."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from tests.e2e.slurmcluster.release import Release, on
from tests.e2e.slurmcluster.sides import node_of
from tests.waiting import eventually

CONTROL = "test.sunk/control"
"""Label of the Node that has everything but compute nodes to itself; the others are the ones to be hurt."""
KINDS = ("cpu", "cpu", "cpu")
VALUES: dict[str, Any] = {
    "accounting": {"enabled": False},
    "nodeSelector": {"labels": {CONTROL: "true"}},
    # Jobs are asked about long after their end.
    "slurmConfig": {"extraConfig": "MinJobAge=7200\n"},
    "compute": {"nodes": {"cpu": {"affinity": on("cpu")}}},
}
PATIENCE = 240.0
"""Whoever has to act may have been killed a moment ago, and killed again when he was about to."""
MARKS = [pytest.mark.full, pytest.mark.timeout(1200)]

in_time = partial(eventually, seconds=PATIENCE)


def throughout(check: Callable[[], bool], *, seconds: float, pause: float = 0.5) -> None:
    """See that something holds all the time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert check(), f"no longer so {end - time.monotonic():.0f} s before the end"
        time.sleep(pause)


def exposed(slurm: Release) -> tuple[str, str]:
    """A compute node that may be hurt, and the Node below it.

    Where the others are a cordon is no harm, but who was killed there meanwhile would wait for its end.
    """
    control = slurm.kubectl("get", "nodes", "-l", f"{CONTROL}=true", "-o", "jsonpath={.items[*].metadata.name}")
    both = ((name, node_of(slurm, name)) for name in slurm.idle())
    return next((name, node) for name, node in both if node != control)
