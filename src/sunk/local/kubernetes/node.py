"""One node of a local cluster: containerd, kubelet and kube-proxy in a network and a mount namespace of their own.

The mount namespace lays the node's own folders over the paths that container tools take for granted
(/var/lib/kubelet, /run/containerd, …). So each node looks like a machine by itself, device plugins and log agents
find what they look for, and every mount that is ever made for a Pod vanishes with the node's last process.
"""

import shlex
from pathlib import Path

import msgspec
import yaml

from sunk.local.artifacts import pause
from sunk.local.artifacts.parts import Parts
from sunk.local.kubernetes import cgroups
from sunk.local.kubernetes.network import LocalNetwork
from sunk.local.kubernetes.process import Daemon
from sunk.local.kubernetes.spec import LocalNode

CONTAINERD_SERVES = "Start streaming server"
"""What containerd says last before it takes calls of a kubelet."""
OWN_FOLDERS = ("/var/lib/kubelet", "/var/log/pods", "/var/log/containers", "/run/containerd", "/run/runc")
MOST_PODS = 110
CNI_PLUGINS = "/usr/lib/cni"

CONTAINERD = """\
version = 2
root = "{root}"
state = "/run/containerd"
oom_score = 0
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.internal.v1.tracing",
  "io.containerd.tracing.processor.v1.otlp",
]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  netns_mounts_under_state_dir = true
  restrict_oom_score_adj = true
  disable_apparmor = true
  tolerate_missing_hugetlb_controller = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{cni}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"""


class Machine(msgspec.Struct, frozen=True):
    """A node's place: which one it is, and where its files are."""

    cluster: str
    node: LocalNode
    index: int
    folder: Path
    network: LocalNetwork
    pki: Path

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def namespace(self) -> str:
        return self.network.namespace_of(self.name)

    @property
    def address(self) -> str:
        return self.network.node(self.index)

    @property
    def containerd_root(self) -> Path:
        return self.folder / "containerd"

    def own(self, path: str) -> Path:
        """Where a folder that the node sees at `path` lies on this machine."""
        return self.folder / "own" / path.strip("/").replace("/", "-")

    @property
    def containerd_socket(self) -> Path:
        """The node's socket as seen from this machine, outside the node's mount namespace."""
        return self.own("/run/containerd") / "containerd.sock"

    @property
    def static_pods(self) -> Path:
        """A folder with manifests: its kubelet runs what is in there without being told to by the API server."""
        return self.folder / "static-pods"


def prepare(machine: Machine) -> None:
    """Write every file the node's daemons read."""
    for path in OWN_FOLDERS:
        machine.own(path).mkdir(parents=True, exist_ok=True)
        Path(path).mkdir(parents=True, exist_ok=True)
    cni = machine.folder / "cni"
    for folder in (cni, machine.static_pods):
        folder.mkdir(exist_ok=True)
    (cni / "10-pods.conflist").write_bytes(msgspec.json.encode(_cni(machine)))
    text = CONTAINERD.format(root=machine.containerd_root, pause=pause.IMAGE, plugins=CNI_PLUGINS, cni=cni)
    (machine.folder / "containerd.toml").write_text(text)
    (machine.folder / "resolv.conf").write_text(f"nameserver {machine.network.api}\n")
    (machine.folder / "kubelet.yaml").write_text(yaml.safe_dump(_kubelet(machine)))


def anchor(machine: Machine) -> Daemon:
    """The process that holds the node's mount namespace open, with its folders laid over the usual paths."""
    binds = [f"mount --bind {shlex.quote(str(machine.own(path)))} {path}" for path in OWN_FOLDERS]
    ready = shlex.quote(str(anchored(machine)))
    # Slave first: what the node mounts must not appear on this machine. Shared again inside: Pods that ask for
    # bidirectional mounts need it.
    lines = ["mount --make-rslave /", *binds, "mount --make-rshared /", f"touch {ready}", "exec sleep infinity"]
    script = " && ".join(lines)
    return Daemon(
        name=f"{machine.name}-anchor",
        command=("unshare", "--mount", "--propagation", "unchanged", "sh", "-c", script),
        network=machine.namespace,
    )


def anchored(machine: Machine) -> Path:
    return machine.folder / "anchored"


def containerd(machine: Machine, *, mounts: int) -> Daemon:
    command = ("containerd", "--config", str(machine.folder / "containerd.toml"))
    return _daemon(machine, "containerd", command=command, mounts=mounts)


def kubelet(machine: Machine, *, parts: Parts, mounts: int) -> Daemon:
    flags = (
        f"--config={machine.folder / 'kubelet.yaml'}",
        f"--kubeconfig={machine.pki / f'{machine.name}.kubeconfig'}",
        f"--hostname-override={machine.name}",
        f"--node-ip={machine.address}",
        f"--cert-dir={machine.folder / 'pki'}",
    )
    return _daemon(machine, "kubelet", command=(str(parts.kubernetes), "kubelet", *flags), mounts=mounts)


def proxy(machine: Machine, *, parts: Parts, mounts: int) -> Daemon:
    flags = (
        f"--kubeconfig={machine.pki / 'proxy.kubeconfig'}",
        f"--hostname-override={machine.name}",
        f"--cluster-cidr={machine.network.pods}",
        "--proxy-mode=iptables",
        "--conntrack-max-per-core=0",
        "--healthz-bind-address=127.0.0.1:10256",
        "--metrics-bind-address=127.0.0.1:10249",
    )
    return _daemon(machine, "proxy", command=(str(parts.kubernetes), "kube-proxy", *flags), mounts=mounts)


def containerd_serves(machine: Machine, *, log: Path) -> bool:
    """Whether a kubelet may start: one that comes between the socket and what it leads to ends at once."""
    return machine.containerd_socket.exists() and CONTAINERD_SERVES in log.read_text(errors="replace")


def _daemon(machine: Machine, part: str, *, command: tuple[str, ...], mounts: int) -> Daemon:
    return Daemon(name=f"{machine.name}-{part}", command=command, network=machine.namespace, mounts=mounts)


def _cni(machine: Machine) -> dict[str, object]:
    """Routed Pods (ptp, no bridge): the proxy's rules then see every packet without a kernel module for bridges."""
    addresses = {
        "type": "host-local",
        "dataDir": str(machine.folder / "addresses"),
        "ranges": [[{"subnet": machine.network.pods_of(machine.index)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    return {
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {"type": "ptp", "ipMasq": False, "ipam": addresses},
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def _kubelet(machine: Machine) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(machine.pki / "authority.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroups.group(machine.cluster)}/{machine.name}",
        "clusterDNS": [machine.network.dns_service],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        # Both for machines that are virtual or old in some way: control groups v1, and root without every capability.
        "failCgroupV1": False,
        "featureGates": {"KubeletInUserNamespace": True},
        "failSwapOn": False,
        "imageGCHighThresholdPercent": 100,
        "localStorageCapacityIsolation": False,
        "maxPods": MOST_PODS,
        "registerWithTaints": [msgspec.to_builtins(taint) for taint in machine.node.taints],
        "resolvConf": str(machine.folder / "resolv.conf"),
        # As it is with control groups v1: a job that takes too much dies, and not the container with all jobs of a node.
        "singleProcessOOMKill": True,
        "staticPodPath": str(machine.static_pods),
    }
