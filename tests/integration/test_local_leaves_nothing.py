"""Whatever happens to a cluster, `down` leaves this machine as it was."""

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from tests.footprint import take
from tests.waiting import eventually

from sunk.local.kubernetes import assets, cgroups, cluster as clusters
from sunk.local.kubernetes.spec import ClusterSpec, plain

SUNK = str(Path(sys.executable).parent / "sunk")


@pytest.fixture
def name() -> Iterator[str]:
    chosen = f"trial-{secrets.token_hex(3)}"
    yield chosen
    clusters.remove(chosen)


def test_down_leaves_nothing_of_a_cluster_with_nodes(name: str) -> None:
    before = take(name)
    clusters.up(plain(name, count=2), assets=assets.fill())
    during = take(name)
    assert all((during.processes, during.namespaces, during.links, during.control_groups))
    clusters.down(name)
    assert take(name) == before


def test_down_leaves_nothing_after_every_process_was_killed(name: str) -> None:
    before = take(name)
    clusters.up(plain(name, count=1), assets=assets.fill())
    for process in cgroups.processes(name):
        with suppress(ProcessLookupError):  # it may have gone with one that was killed before it
            os.kill(process, signal.SIGKILL)
    clusters.down(name)
    assert take(name) == before


@pytest.mark.parametrize("moment", [0.1, 0.4, 1.0, 2.0, 4.0])
def test_down_leaves_nothing_of_an_up_that_was_killed_halfway(name: str, moment: float) -> None:
    before = take(name)
    started = subprocess.Popen([SUNK, "local", "up", "--name", name, "--nodes", "2"], stderr=subprocess.DEVNULL)
    eventually(lambda: clusters.exists(name), seconds=240)  # images may have to be built first
    time.sleep(moment)
    started.kill()
    started.wait()
    subprocess.run([SUNK, "local", "down", "--name", name], check=True, stderr=subprocess.DEVNULL)
    assert take(name) == before


def test_an_interrupted_up_takes_back_what_it_made(name: str) -> None:
    before = take(name)
    started = subprocess.Popen([SUNK, "local", "up", "--name", name, "--nodes", "1"], stderr=subprocess.DEVNULL)
    time.sleep(2.0)
    started.send_signal(signal.SIGINT)
    assert started.wait(timeout=180) != 0
    assert take(name) == before


def test_up_clears_the_remains_of_an_earlier_one(name: str) -> None:
    clusters.up(ClusterSpec(name=name, nodes=()), assets=assets.fill(images=False))
    cgroups.kill(name)
    again = clusters.up(ClusterSpec(name=name, nodes=()), assets=assets.fill(images=False))
    assert clusters.healthy(again)


def test_two_clusters_start_at_once_run_side_by_side_and_end_apart(name: str) -> None:
    other, parts = f"{name}-b", assets.fill(images=False)
    try:
        with ThreadPoolExecutor() as pool:
            first, second = pool.map(
                lambda each: clusters.up(ClusterSpec(name=each, nodes=()), assets=parts), (name, other)
            )
        assert first.network.block != second.network.block
        clusters.down(name)
        assert clusters.healthy(second)
    finally:
        clusters.remove(other)
