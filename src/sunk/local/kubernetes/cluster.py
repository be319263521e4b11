"""Bring a local cluster up, and take it down so that nothing of it stays.

`up` writes down what it is about to make before it makes anything; `down` looks for everything a cluster of that name
can own, made or half made, and removes it. Neither trusts the other to have come to its end.
"""

import os
import shutil
import ssl
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from urllib.request import urlopen

import msgspec

from sunk.local import paths
from sunk.local.artifacts import cache
from sunk.local.artifacts.parts import Parts
from sunk.local.kubernetes import cgroups, limits, network as networks, node as nodes, pki, seed
from sunk.local.kubernetes.assets import Assets
from sunk.local.kubernetes.controlplane import ControlPlane
from sunk.local.kubernetes.network import API_PORT, LocalNetwork
from sunk.local.kubernetes.node import Machine
from sunk.local.kubernetes.process import Daemon, Home, dead, running, start, wait
from sunk.local.kubernetes.spec import ClusterSpec
from sunk.local.naming import checked_name, is_name
from sunk.local.progress import note, step
from sunk.model.refusal import Refusal

API_PATIENCE = 60.0
NODE_PATIENCE = 120.0


class LocalCluster(msgspec.Struct, frozen=True):
    """A cluster as it was asked for, and where it lies. Kept as cluster.json in its folder."""

    spec: ClusterSpec
    network: LocalNetwork
    images: tuple[str, ...] = ()
    complete: bool = False

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def folder(self) -> Path:
        return folder_of(self.name)

    @property
    def home(self) -> Home:
        return Home(cluster=self.name, folder=self.folder)

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "pki" / "admin.kubeconfig"

    @property
    def server(self) -> str:
        return f"https://{self.network.api}:{API_PORT}"

    @property
    def machines(self) -> tuple[Machine, ...]:
        return tuple(
            Machine(
                cluster=self.name,
                node=each,
                index=index,
                folder=self.folder / "nodes" / each.name,
                network=self.network,
                pki=self.folder / "pki",
            )
            for index, each in enumerate(self.spec.nodes, start=1)
        )


def folder_of(name: str) -> Path:
    """Where the cluster of this name lies. It is removed whole one day, so it must be below our own folder."""
    folder = paths.clusters() / checked_name(name)
    if folder.is_symlink():
        raise Refusal(f"{folder} is a symbolic link, but clusters are folders. Check where it points, and remove it.")
    return folder


def find(name: str) -> LocalCluster | None:
    """What is written down of the cluster called `name`."""
    try:
        return msgspec.json.decode((folder_of(name) / "cluster.json").read_bytes(), type=LocalCluster)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError:
        return None


def names() -> list[str]:
    folder = paths.clusters()
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted(each.name for each in found if is_name(each.name) and each.is_dir() and not each.is_symlink())


def healthy(cluster: LocalCluster) -> bool:
    return cluster.complete and not dead(cluster.home) and bool(running(cluster.home))


def running_one(name: str) -> LocalCluster:
    """The cluster of that name, or a sentence that says what there is instead."""
    require(name)
    found = find(name)
    if found is None or not healthy(found):
        raise Refusal(f"cluster {name} is incomplete. See `sunk local status`; `sunk local down` removes it.")
    return found


def answering_one(name: str) -> LocalCluster:
    """As `running_one`, for those who need nothing but the API: a cluster with a part gone will do, with a word of it."""
    require(name)
    found = find(name)
    if found is None or not found.complete or healthy(found) or not _answers(found):
        return running_one(name)
    gone = ", ".join(dead(found.home))
    note(f"{gone} of cluster {name} no longer runs, but its API answers. See `sunk local status`.")
    return found


def require(name: str) -> None:
    if not exists(name):
        others = f"Running: {', '.join(names())}." if names() else "`sunk local up` starts one."
        raise Refusal(f"no cluster {name} is up. {others}")


def require_free(name: str) -> None:
    if (standing := find(name)) and healthy(standing):
        raise Refusal(
            f"cluster {name} is already up. Use it with `sunk local exec --name {name} -- kubectl get nodes`, "
            f"stop it with `sunk local down --name {name}`, or choose another --name."
        )


def up(spec: ClusterSpec, *, assets: Assets, subnet: str | None = None) -> LocalCluster:
    """Start a cluster. Whatever stops it half-way, also a key press, takes back what was made so far."""
    require_root()
    require_free(spec.name)
    if exists(spec.name):
        with step(f"Clean up an earlier {spec.name}"):
            remove(spec.name)
    limits.require_instances(len(spec.nodes))
    with cache.locked("networks"):  # a block is free until somebody is connected to it
        plan = LocalNetwork(cluster=spec.name, block=networks.choose_block(subnet))
        cluster = LocalCluster(spec=spec, network=plan, images=assets.images)
        with _whole_or_nothing(spec.name):
            _write(cluster)
            networks.connect(plan)
    with _whole_or_nothing(spec.name):
        _start(cluster, assets=assets)
    cluster = msgspec.structs.replace(cluster, complete=True)
    _write(cluster)
    return cluster


@contextmanager
def _whole_or_nothing(name: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with step("Undo what was started"):
            remove(name)
        raise


def down(name: str) -> None:
    require_root()
    require(name)
    remove(name)


def exists(name: str) -> bool:
    return folder_of(name).exists() or cgroups.exists(name) or bool(networks.namespaces(name))


def load(cluster: LocalCluster, archive: Path) -> None:
    """Put an image on every node of a running cluster."""
    with ThreadPoolExecutor() as pool:
        sockets = [machine.containerd_socket for machine in cluster.machines]
        list(pool.map(lambda socket: seed.load(archive, socket=socket), sockets))


def remove(name: str) -> None:
    """Remove everything a cluster of this name can own: processes first, since they hold all the rest."""
    folder = folder_of(name)
    cgroups.kill(name)
    networks.remove(name)
    if mounted := mounts(folder):
        raise Refusal(f"{mounted[0]} is mounted inside the cluster's folder. Unmount it, then repeat.")
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        raise Refusal(f"{folder} cannot be removed completely. Check what is mounted below it, then repeat.")
    cgroups.remove(name)
    if not names():
        for path in nodes.OWN_FOLDERS:
            with suppress(OSError):
                os.rmdir(path)  # noqa: PTH106 (only if empty, and only those that a node was laid over)


def mounts(folder: Path) -> list[str]:
    """Mount points below `folder`. Removing the folder must never reach through one into somebody's data."""
    points = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return [point for point in points if point.startswith(f"{folder}/")]


def require_root() -> None:
    if os.geteuid():
        raise Refusal("a local cluster needs root (namespaces, containers). Run this as root, for example with sudo.")


def _write(cluster: LocalCluster) -> None:
    cluster.folder.mkdir(parents=True, exist_ok=True)
    # Everything is in it: keys, tokens, sockets of root's containerd, the data of volumes.
    cluster.folder.chmod(0o700)
    text = msgspec.json.encode(cluster)
    whole = cluster.folder / "cluster.json.new"
    whole.write_bytes(text)
    whole.replace(cluster.folder / "cluster.json")


def _start(cluster: LocalCluster, *, assets: Assets) -> None:
    with step("Start etcd, API server and controller-manager"):
        _start_api(cluster, parts=assets.parts)
    if cluster.machines:
        with step("Prepare the nodes and their images"):
            _lay_out(cluster)
        with step(f"Start scheduler, DNS and {len(cluster.machines)} nodes"):
            _start_nodes(cluster, parts=assets.parts)


def _start_api(cluster: LocalCluster, *, parts: Parts) -> None:
    cgroups.create(cluster.name, nodes=cluster.spec.node_names)
    known = pki.identities(cluster.spec.node_names)
    pki.make(cluster.folder / "pki", network=cluster.network, known=known)
    plane = ControlPlane(parts=parts, folder=cluster.folder, network=cluster.network)
    for daemon in (plane.etcd(), plane.api_server(), plane.controller_manager(api_only=not cluster.machines)):
        start(daemon, home=cluster.home)
    wait(lambda: _answers(cluster), what="the API server", home=cluster.home, timeout=API_PATIENCE)


def _answers(cluster: LocalCluster) -> bool:
    """Whether the API server takes requests. Bare of our client: that one treats a refused connection as a fault."""
    trust = ssl.create_default_context(cafile=str(cluster.folder / "pki" / "authority.crt"))
    try:
        with urlopen(f"https://{cluster.network.api}:{API_PORT}/readyz", context=trust, timeout=2) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except OSError:
        return False


def _lay_out(cluster: LocalCluster) -> None:
    networks.add_bridge(cluster.network, nodes=len(cluster.machines))
    source = seed.template([Path(image) for image in cluster.images])
    for machine in cluster.machines:
        machine.folder.mkdir(parents=True)
        if source:
            seed.plant(source, target=machine.containerd_root)
        networks.add_node(cluster.network, name=machine.name, index=machine.index)
        nodes.prepare(machine)


def _start_nodes(cluster: LocalCluster, *, parts: Parts) -> None:
    home = cluster.home
    plane = ControlPlane(parts=parts, folder=cluster.folder, network=cluster.network)
    for daemon in (plane.scheduler(), plane.dns()):
        start(daemon, home=home)
    anchors = {machine.name: start(nodes.anchor(machine), home=home) for machine in cluster.machines}
    for machine in cluster.machines:
        wait(nodes.anchored(machine).exists, what=f"the mounts of {machine.name}", home=home, timeout=NODE_PATIENCE)
        start(nodes.containerd(machine, mounts=anchors[machine.name]), home=home)
    for machine in cluster.machines:
        mounts = anchors[machine.name]
        log = home.log(f"{machine.name}-containerd")
        ready = partial(nodes.containerd_serves, machine, log=log)
        wait(ready, what=f"containerd of {machine.name}", home=home, timeout=NODE_PATIENCE)
        start(nodes.kubelet(machine, parts=parts, mounts=mounts), home=home)
        start(nodes.proxy(machine, parts=parts, mounts=mounts), home=home)
    start(_agent(cluster), home=home)
    wait(settled(cluster).exists, what="a Ready state of every node", home=home, timeout=NODE_PATIENCE)


def _agent(cluster: LocalCluster) -> Daemon:
    command = (sys.executable, "-m", "sunk.local.addons.agent", "--name", cluster.name)
    return Daemon(name="agent", command=command, network=cluster.network.namespace)


def settled(cluster: LocalCluster) -> Path:
    """The file by which the agent says that all nodes are what they should be, and ready."""
    return cluster.folder / "settled"
