"""The operator, installed by its chart, makes Slurm nodes out of Kubernetes Nodes."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from msgspec import Struct, json
from tests.conftest import Kubectl
from tests.e2e.test_plain_slurm import AS_USER
from tests.helm import Helm
from tests.waiting import eventually

from sunk.local.kubernetes import assets
from sunk.local.kubernetes.cluster import LocalCluster
from sunk.model import names

HERE = Path(__file__).parent
OPERATOR = "sunk-controller-manager"


@pytest.fixture(scope="module")
def kubectl(cluster: LocalCluster) -> Iterator[Kubectl]:
    """A namespace that the tests of this module share."""
    tool = Kubectl(assets.fill().parts.kubectl, cluster.kubeconfig, f"test-{secrets.token_hex(4)}")
    tool("create", "namespace", tool.namespace)
    yield tool
    tool("delete", "namespace", tool.namespace, "--wait=false")


@pytest.fixture(scope="module")
def operator(kubectl: Kubectl) -> Iterator[Helm]:
    helm = Helm(assets.fill().parts.helm, kubectl)
    release = f"sunk-{kubectl.namespace}"
    helm.install(release, "--set", f"namespaces={{{kubectl.namespace}}}", "--set", "resources.requests.cpu=20m")
    kubectl("rollout", "status", f"deployment/{OPERATOR}", "--timeout=110s")
    yield helm
    helm("uninstall", release)


@pytest.fixture(scope="module")
def slurm(kubectl: Kubectl) -> Kubectl:
    """A slurmctld that has no nodes yet."""
    kubectl("create", "secret", "generic", "slurm-key", f"--from-literal=slurm.key={secrets.token_hex(32)}")
    documents = yaml.safe_load_all((HERE / "slurm.yaml").read_text())
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(one for one in documents if one["kind"] != "DaemonSet"))
    kubectl("rollout", "status", "statefulset/slurm-controller", "--timeout=110s")
    return kubectl


class Fleet(Struct, frozen=True):
    """A NodeSet, the Nodes that may take part, and what Slurm says of them."""

    kubectl: Kubectl
    name: str
    label: str
    nodes: tuple[str, ...]

    def admit(self, number: int) -> None:
        self.kubectl("label", "node", self.nodes[number], f"{self.label}=")

    def slurm(self, *command: str) -> str:
        return self.kubectl("exec", "slurm-controller-0", "--", *command)

    def idle(self) -> list[str]:
        return sorted(self.slurm("sinfo", "--noheader", "-N", "-t", "idle", "-o", "%N").split())

    def expected(self, *numbers: int) -> list[str]:
        """What the Slurm nodes on these Nodes must be called: the last two octets of the address tell."""
        path = "jsonpath={.status.addresses[?(@.type=='InternalIP')].address}"
        asked = [self.kubectl("get", "node", self.nodes[number], "-o", path) for number in numbers]
        return sorted("{}-{:03}-{:03}".format(self.name, *map(int, one.split(".")[2:])) for one in asked)

    def status(self, field: str) -> str:
        return self.kubectl("get", "nodeset", self.name, "-o", f"jsonpath={{.status.{field}}}")

    def members(self) -> list[str]:
        entries = "jsonpath={.items[*].spec.entries[*].name}"
        return sorted(self.kubectl("get", "nodeslices", "-o", entries).split())

    def traces(self) -> list[str]:
        """Labels and annotations of ours on any Node."""
        found = json.decode(self.kubectl("get", "nodes", "-o", "json"))
        carried = [one["metadata"].get("labels", {}) | one["metadata"].get("annotations", {}) for one in found["items"]]
        return [key for each in carried for key in each if key.startswith(names.GROUP)]

    def sweep(self) -> None:
        """Leave the cluster to the next run as it was, also if the operator has failed to."""
        for left in self.kubectl("get", "nodesets", "-o", "name").split():
            self.kubectl("patch", left, "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
        ours = (names.NODESET, names.NAMESPACE, names.CLUSTER, names.POD)
        self.kubectl("label", "nodes", "--all", *(f"{key}-" for key in (self.label, *ours)))
        self.kubectl("annotate", "nodes", "--all", f"{names.CLAIM}-")


@pytest.fixture
def fleet(slurm: Kubectl, operator: Helm, cluster: LocalCluster) -> Iterator[Fleet]:
    mark = secrets.token_hex(3)
    found = Fleet(slurm, f"e2e-{mark}", f"test.sunk/{mark}", cluster.spec.node_names)
    manifest = (HERE / "nodeset.yaml").read_text()
    found.admit(0)
    slurm("apply", "-f", "-", stdin=manifest.replace("{name}", found.name).replace("{label}", found.label))
    yield found
    try:
        # Nobody is there who could tell that no job runs: it has to be said that none does.
        slurm("annotate", "nodeset", found.name, f"{names.FORCE_DELETION}=true", "--overwrite")
        slurm("delete", "nodeset", found.name, "--timeout=110s")
        assert operator.kubectl("get", "pods", "-l", f"{names.NODESET}={found.name}", "-o", "name") == ""
        eventually(lambda: found.traces() == [])
    finally:
        found.sweep()


def test_nodes_labelled_in_become_slurm_nodes_and_a_job_runs_over_all(fleet: Fleet) -> None:
    eventually(lambda: fleet.idle() == fleet.expected(0))

    fleet.admit(1)
    eventually(lambda: fleet.idle() == fleet.expected(0, 1))

    fleet.admit(2)
    eventually(lambda: fleet.status("numberFeasible") == "3")
    assert fleet.members() == fleet.expected(0, 1)  # two were asked for

    fleet.kubectl("scale", "nodeset", fleet.name, "--replicas=3")
    eventually(lambda: fleet.idle() == fleet.expected(0, 1, 2))
    said = fleet.slurm(*AS_USER, "srun", "-N3", "--gres=gpu:h100:8", "hostname").split()
    assert sorted(said) == fleet.expected(0, 1, 2)
    eventually(lambda: fleet.status("numberReady") == "3")
    assert fleet.members() == fleet.expected(0, 1, 2)


def test_a_new_copy_of_the_operator_takes_over_from_the_old_one(operator: Helm) -> None:
    def leader() -> str:
        asked = ("get", "lease", OPERATOR, "--ignore-not-found", "-o", "jsonpath={.spec.holderIdentity}")
        return operator.kubectl(*asked).partition("_")[0]

    eventually(lambda: leader().startswith(OPERATOR))  # it is ready before it leads
    before = leader()
    operator.kubectl("rollout", "restart", f"deployment/{OPERATOR}")
    operator.kubectl("rollout", "status", f"deployment/{OPERATOR}", "--timeout=110s")
    eventually(lambda: leader().startswith(OPERATOR) and leader() != before)
