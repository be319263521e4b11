"""The local cluster does what people expect of a Kubernetes."""

import json
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from tests.conftest import CLUSTER, Kubectl
from tests.e2e.pods import replaced
from tests.waiting import eventually

from sunk.local.artifacts import pause
from sunk.local.kubernetes import assets, cluster as clusters, network
from sunk.local.kubernetes.cluster import LocalCluster
from sunk.local.kubernetes.spec import from_file

HERE = Path(__file__).parent


@pytest.fixture
def web(kubectl: Kubectl) -> Kubectl:
    kubectl("apply", "-f", str(HERE / "web.yaml"))
    kubectl("rollout", "status", "deployment/web", "--timeout=110s")
    kubectl("wait", "--for=condition=Ready", "pod/client", "--timeout=110s")
    return kubectl


def balanced(web: Kubectl) -> str:
    """The address of the web server for this machine, once it has one."""
    asked = ("get", "service", "web", "-o", "jsonpath={.status.loadBalancer.ingress[0].ip}")
    eventually(lambda: web(*asked) != "")
    return web(*asked)


def answer(address: str) -> str:
    """Empty if nobody answers: routes and rules of each node follow in their own time."""
    try:
        with urlopen(f"http://{address}/", timeout=5) as said:
            return str(said.read().decode().strip())
    except OSError:
        return ""


def test_services_answer_by_name_by_address_and_from_this_machine(web: Kubectl) -> None:
    names = set(web("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].metadata.name}").split())
    heard: set[str] = set()

    def both_copies_answered() -> bool:
        # Each node's kube-proxy learns of the copies in its own time, and refuses connections until then.
        heard.add(web("exec", "client", "--", "sh", "-c", "curl -s --max-time 10 http://web || true").strip())
        return heard - {""} == names

    eventually(both_copies_answered)

    address = balanced(web)
    eventually(lambda: answer(address) in names)


@pytest.mark.parametrize("policy", ["Local", "Cluster"])
def test_a_balanced_address_reaches_every_copy_wherever_it_is(web: Kubectl, cluster: LocalCluster, policy: str) -> None:
    names = set(web("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].metadata.name}").split())
    web("patch", "service", "web", "-p", f'{{"spec": {{"externalTrafficPolicy": "{policy}"}}}}')
    address = balanced(web)
    # Until the way leads to the nodes of the copies alone, a proxy that hears of the policy may cut it.
    ask = ("ip", "-netns", cluster.network.namespace, "-json", "route", "show", f"{address}/32")

    def leads_to_the_copies() -> bool:
        routes = json.loads(subprocess.run(ask, capture_output=True, text=True, check=True).stdout)
        return [len(route.get("nexthops", ())) for route in routes] == [len(names)]

    eventually(leads_to_the_copies)
    eventually(lambda: {answer(address) for _ in range(24)} == names)
    assert {answer(address) for _ in range(24)} == names


def test_what_a_cluster_keeps_is_roots_alone(cluster: LocalCluster) -> None:
    assert stat.S_IMODE(cluster.folder.stat().st_mode) == 0o700
    secret = [*(cluster.folder / "pki").glob("*.key"), *(cluster.folder / "pki").glob("*.kubeconfig")]
    assert len(secret) > len(cluster.machines)
    for file in (*secret, cluster.folder / "pki" / "tokens.csv"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    # Who may connect to a socket is who may reach it.
    for machine in cluster.machines:
        assert machine.containerd_socket.is_relative_to(cluster.folder)
        assert not stat.S_IMODE(machine.containerd_socket.stat().st_mode) & 0o007


def test_logs_and_exec_reach_the_container(web: Kubectl) -> None:
    eventually(lambda: web("logs", "client") != "")  # it may be ready before it has said it
    assert web("logs", "client") == "here I am\n"
    assert web("exec", "client", "--", "id", "-u") == "0\n"


def test_names_outside_the_cluster_do_not_resolve(web: Kubectl) -> None:
    script = "getent hosts example.org || echo nobody"
    assert web("exec", "client", "--", "sh", "-c", script, timeout=60) == "nobody\n"


def test_nothing_in_the_cluster_has_a_route_to_the_outside(cluster: LocalCluster) -> None:
    for namespace in network.namespaces(cluster.name):
        asked = ["ip", "-netns", namespace, "route", "get", "198.51.100.1"]
        said = subprocess.run(asked, capture_output=True, text=True, check=False)
        assert "unreachable" in said.stderr, f"{namespace}: {said.stdout}"


def test_an_unknown_service_address_dies_in_the_cluster(cluster: LocalCluster) -> None:
    unused = cluster.network.services.replace("128.0/18", "190.9")
    for machine in cluster.machines:
        asked = ["ip", "-netns", machine.namespace, "route", "get", unused]
        said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        assert "dev eth0" in said
        assert "via" not in said


def test_volumes_outlive_pods_and_go_with_their_claims(kubectl: Kubectl, cluster: LocalCluster) -> None:
    kubectl("apply", "-f", str(HERE / "claims.yaml"))
    kubectl("rollout", "status", "statefulset/keeper", "--timeout=110s")
    kubectl("exec", "keeper-0", "--", "sh", "-c", "echo kept | tee /anywhere/note /on-node/note")
    node = kubectl("get", "pod", "keeper-0", "-o", "jsonpath={.spec.nodeName}")

    replaced(kubectl, "keeper-0")
    assert kubectl("exec", "keeper-0", "--", "cat", "/anywhere/note", "/on-node/note") == "kept\nkept\n"
    assert kubectl("get", "pod", "keeper-0", "-o", "jsonpath={.spec.nodeName}") == node

    volumes = kubectl("get", "pvc", "-o", "jsonpath={.items[*].spec.volumeName}").split()
    folders = [cluster.folder / "volumes" / name for name in volumes]
    assert all((folder / "note").exists() for folder in folders)
    assert [(one.stat().st_gid, one.stat().st_mode & 0o7777) for one in folders] == [(1234, 0o2775)] * 2
    kubectl("delete", "statefulset", "keeper")
    eventually(lambda: not any((cluster.folder / "volumes" / name).exists() for name in volumes))


def test_an_image_can_be_loaded_onto_running_nodes(cluster: LocalCluster, tmp_path: Path) -> None:
    image = tmp_path / "again.tar"
    binary = assets.fill(images=False).parts.pause.read_bytes()
    image.write_bytes(pause.image(binary, name="localhost/loaded:1"))
    clusters.load(cluster, image)
    for machine in cluster.machines:
        command = ["ctr", "-a", str(machine.containerd_socket), "-n", "k8s.io", "images", "ls", "-q"]
        assert "localhost/loaded:1" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """A cluster of its own, beside the other, whose nodes are described in a file."""
    file = tmp_path_factory.mktemp("described") / "nodes.yaml"
    file.write_text(
        """
        nodes:
          - name: gpu-1
            labels: {gpu.nvidia.com/class: H100_NVLINK_80GB, node-role.kubernetes.io/gpu: ""}
            taints: [{key: dedicated, value: slurm, effect: NoSchedule}]
            resources: {nvidia.com/gpu: 8}
          - name: cpu-1
        """
    )
    name = f"{CLUSTER}-described"
    clusters.remove(name)
    made = clusters.up(from_file(name, file=file), assets=assets.fill())
    yield Kubectl(program=assets.fill().parts.kubectl, kubeconfig=made.kubeconfig, namespace="default")
    clusters.down(name)


def test_nodes_are_what_the_file_says(described: Kubectl) -> None:
    def of_gpu(path: str) -> str:
        return described("get", "node", "gpu-1", "-o", f"jsonpath={{{path}}}")

    assert of_gpu(r".metadata.labels.gpu\.nvidia\.com/class") == "H100_NVLINK_80GB"
    # Kubernetes taints a Node that is not ready, and takes that back a moment after it is.
    eventually(lambda: of_gpu(".spec.taints[*].key") == "dedicated")
    assert of_gpu(r".status.allocatable.nvidia\.com/gpu") == "8"
    eventually(lambda: described("get", "node", "cpu-1", "-o", "jsonpath={.spec.taints}") == "")


def test_a_label_taken_away_by_hand_comes_back(described: Kubectl) -> None:
    described("label", "node", "gpu-1", "gpu.nvidia.com/class-")
    get = ("get", "nodes", "-l", "gpu.nvidia.com/class=H100_NVLINK_80GB", "-o", "name")
    eventually(lambda: described(*get) == "node/gpu-1\n")


def test_a_pod_that_wants_faked_devices_lands_where_they_are(described: Kubectl) -> None:
    pod = """
    apiVersion: v1
    kind: Pod
    metadata: {name: trainer}
    spec:
      tolerations: [{key: dedicated, operator: Exists}]
      terminationGracePeriodSeconds: 0
      containers:
        - name: trainer
          image: localhost/sunk-pause:1
          imagePullPolicy: Never
          resources: {limits: {nvidia.com/gpu: 8}}
    """
    described("apply", "-f", "-", stdin=pod)
    described("wait", "--for=condition=Ready", "pod/trainer", "--timeout=110s")
    assert described("get", "pod", "trainer", "-o", "jsonpath={.spec.nodeName}") == "gpu-1"
