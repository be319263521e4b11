"""While these tests run, syncer and operator are killed at random moments, and `sunk verify` watches for broken laws."""

from collections.abc import Iterator

import pytest
from msgspec import json
from tests.e2e.slurmcluster.conftest import OPERATOR
from tests.e2e.slurmcluster.release import Release
from tests.e2e.slurmcluster.unrest.ground import CONTROL, in_time
from tests.e2e.slurmcluster.unrest.killing import Unrest
from tests.e2e.slurmcluster.unrest.watcher import watching
from tests.helm import Helm

from sunk.local.kubernetes.cluster import LocalCluster


@pytest.fixture(scope="module")
def operator(operator: Helm, nodes: tuple[str, ...]) -> Iterator[Helm]:
    """The operator on the Node that is left in peace, where the values have the control plane too."""
    operator.kubectl("label", "node", nodes[0], f"{CONTROL}=true", "--overwrite")
    placed = {"spec": {"template": {"spec": {"nodeSelector": {CONTROL: "true"}}}}}
    operator.kubectl("patch", "deployment", OPERATOR, "-p", json.encode(placed).decode())
    operator.kubectl("rollout", "status", f"deployment/{OPERATOR}", "--timeout=110s")
    yield operator
    operator.kubectl("label", "node", nodes[0], f"{CONTROL}-")


@pytest.fixture(scope="module")
def unrest(slurm: Release, cluster: LocalCluster, request: pytest.FixtureRequest) -> Iterator[Unrest]:
    seed = f"{request.config.getoption('randomly_seed', default=0)} {request.module.__name__.rpartition('.')[2]}"
    with watching(slurm):
        made = Unrest(slurm.kubectl, cluster, seed=seed)
        made.begin()
        try:
            yield made
        finally:
            made.end()
        assert not made.trouble, "\n".join(made.deeds)


@pytest.fixture(autouse=True)
def calm(slurm: Release, nodes: tuple[str, ...], unrest: Unrest, request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test begins and ends with all nodes idle. Who was killed meanwhile is shown if it fails."""
    seed, begin = unrest.deeds[0], len(unrest.deeds)
    yield
    try:
        slurm.cancel()
        in_time(lambda: len(slurm.idle()) == len(nodes))
        assert not unrest.trouble, unrest.trouble
    finally:
        request.node.add_report_section("teardown", "deeds", "\n".join((seed, *unrest.deeds[begin:])))
