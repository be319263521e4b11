"""For each module an operator and a Slurm cluster that its tests share: `VALUES` of the module say which one.

`OPERATOR_VALUES`, if it has them, are for the operator; {namespace} in them is where the cluster will be.
"""

import secrets
from collections.abc import Iterator
from contextlib import suppress
from types import ModuleType

import pytest
from msgspec import json
from tests.conftest import Kubectl
from tests.e2e.slurmcluster.release import LABEL, Release, on
from tests.e2e.slurmcluster.tenants import Tenants, locks
from tests.helm import Helm
from tests.waiting import eventually

from sunk.local.kubernetes import assets
from sunk.local.kubernetes.cluster import LocalCluster
from sunk.model import names
from sunk.model.contract import lock

OPERATOR = "sunk-controller-manager"


@pytest.fixture(scope="module")
def spaces(cluster: LocalCluster) -> Iterator[tuple[Kubectl, Kubectl]]:
    """Two namespaces that the tests of a module share."""
    program, mark = assets.fill(images=False).parts.kubectl, secrets.token_hex(4)
    found = Kubectl(program, cluster.kubeconfig, f"test-{mark}"), Kubectl(program, cluster.kubeconfig, f"test-{mark}-b")
    for one in found:
        one("create", "namespace", one.namespace)
    yield found
    for one in found:
        one("delete", "namespace", one.namespace, "--wait=false")


@pytest.fixture(scope="module")
def operator(spaces: tuple[Kubectl, Kubectl], request: pytest.FixtureRequest) -> Iterator[Helm]:
    helm = Helm(assets.fill(images=False).parts.helm, spaces[0])
    release, looked_at = f"sunk-{spaces[0].namespace}", ",".join(one.namespace for one in spaces)
    values = {"namespaces": f"{{{looked_at}}}", "resources.requests.cpu": "20m"}
    for key, value in getattr(request.module, "OPERATOR_VALUES", {}).items():
        values[key] = value.format(namespace=spaces[0].namespace)
    helm.install(release, *(word for key, value in values.items() for word in ("--set", f"{key}={value}")))
    spaces[0]("rollout", "status", f"deployment/{OPERATOR}", "--timeout=110s")
    yield helm
    helm("uninstall", release)


@pytest.fixture(scope="module")
def nodes(cluster: LocalCluster, spaces: tuple[Kubectl, Kubectl]) -> Iterator[tuple[str, ...]]:
    """The Nodes; none of them is for Slurm before somebody labels it."""
    yield cluster.spec.node_names
    _sweep(spaces)


def _sweep(spaces: tuple[Kubectl, Kubectl]) -> None:
    """Leave the cluster to the next one as it was, also if the operator or a test has failed to."""
    for kubectl in spaces:
        for left in kubectl("get", "nodesets,slurmclusters", "-o", "name").split():
            kubectl("patch", left, "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
    ours = (LABEL, names.NODESET, names.NAMESPACE, names.CLUSTER, names.POD, names.LOCK)
    spaces[0]("label", "nodes", "--all", *(f"{key}-" for key in ours))
    noted = (names.CLAIM, names.DRAIN, names.KEPT_DRAIN, *lock.LOCK_ANNOTATIONS)
    for node, (_, tainted) in locks(spaces[0]).items():
        if tainted:
            spaces[0]("taint", "node", node, f"{names.LOCK}-")
    spaces[0]("annotate", "nodes", "--all", *(f"{key}-" for key in noted))


def traces(kubectl: Kubectl) -> list[str]:
    """What of ours is on any Node."""
    found = json.decode(kubectl("get", "nodes", "-o", "json"))["items"]
    carried = [one["metadata"].get("labels", {}) | one["metadata"].get("annotations", {}) for one in found]
    tainted = [taint["key"] for one in found for taint in one["spec"].get("taints", [])]
    told = [condition["type"] for one in found for condition in one["status"]["conditions"]]
    keys = [key for each in carried for key in each] + tainted + told
    return [key for key in keys if key.startswith(names.GROUP)]


def no_traces(kubectl: Kubectl) -> None:
    """See that nothing of ours stays on any Node: what it says of a drain goes a moment after its NodeSet."""
    with suppress(AssertionError):
        eventually(lambda: traces(kubectl) == [])
    assert traces(kubectl) == []


@pytest.fixture(scope="module")
def slurm(
    operator: Helm, nodes: tuple[str, ...], request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Release]:
    """The Slurm cluster of the module, with the Nodes labelled in the order of its KINDS."""
    for node, kind in zip(nodes, request.module.KINDS, strict=True):
        operator.kubectl("label", "node", node, f"{LABEL}={kind}", "--overwrite")
    release = Release(operator, "slurm", tmp_path_factory.mktemp("values"), request.module.VALUES)
    release.install()
    release.ready()
    # Its Pods are ready before Slurm has the nodes, and the syncer lets no job onto them before it has looked.
    eventually(lambda: len(release.idle()) == _compute_nodes(request.module))
    yield release
    release.uninstall()
    no_traces(operator.kubectl)


def _compute_nodes(module: ModuleType) -> int:
    """How many Nodes are for a definition of the module."""
    definitions = module.VALUES["compute"]["nodes"].values()
    return sum(any(one.get("affinity") == on(kind) for one in definitions) for kind in module.KINDS)


@pytest.fixture
def tenants(slurm: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    """Kubernetes work of the test, gone when it ends."""
    folder = tmp_path_factory.mktemp("beats")
    folder.chmod(0o777)
    found = Tenants(slurm.kubectl, folder)
    yield found
    found.remove()
