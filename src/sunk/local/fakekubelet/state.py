"""What the fake kubelet knows: Nodes of its fleet, Pods by Node, and what befell each Pod when. No I/O."""

from ipaddress import IPv4Address
from itertools import count
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from sunk.kube.core import Node, Pod
from sunk.kube.resource import Key
from sunk.local.fakekubelet.behaviour import overrides
from sunk.local.fakekubelet.binding import UnboundPod, pinned
from sunk.local.fakekubelet.pods import ENDED, Host, PodTimes
from sunk.local.fakekubelet.settings import Settings

FIRST_ADDRESS: Final = int(IPv4Address("100.64.0.1"))
LAST_ADDRESS: Final = int(IPv4Address("100.127.255.254"))


class PodState(Struct):
    """A Pod as read last, with its times."""

    pod: Pod
    times: PodTimes


class FleetState:
    """Takes in what was read, from a watch or as the answer to a write, whichever is newer."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.pods: dict[Key, PodState] = {}
        self.by_node: dict[str, set[Key]] = {}
        self.waiting: dict[Key, UnboundPod] = {}
        self.pinned_to: dict[str, set[Key]] = {}
        self._given: dict[str, str] = {}
        self._next_address = FIRST_ADDRESS

    def see_node(self, node: Node) -> bool:
        """Take in a Node; True if its Pods may be treated differently from now on."""
        before = self.nodes.get(node.metadata.name)
        if before is not None and _older(node, before):
            return False
        self.nodes[node.metadata.name] = node
        return before is None or overrides(before.metadata.annotations) != overrides(node.metadata.annotations)

    def see_pod(self, pod: Pod, *, clock: float) -> bool:
        """Take in a Pod; False if something newer is known already."""
        known = self.pods.get(pod.key)
        if known is not None and known.pod.metadata.uid != pod.metadata.uid:
            known = None
        if known is not None and _older(pod, known.pod):
            return False
        before = known.pod if known else None
        times = known.times if known else PodTimes(address=self._address(pod))
        self.pods[pod.key] = PodState(pod, _told(times, before=before, pod=pod, clock=clock))
        self.by_node.setdefault(pod.spec.node_name, set()).add(pod.key)
        return True

    def admit(self, key: Key, *, clock: float) -> None:
        known = self.pods[key]
        known.times = replace(known.times, admitted=clock)

    def forget_node(self, name: str) -> None:
        self.nodes.pop(name, None)

    def forget_pod(self, pod: Pod) -> None:
        """Drop a Pod, unless another of the same name has come in between."""
        known = self.pods.get(pod.key)
        if known is None or known.pod.metadata.uid != pod.metadata.uid:
            return
        del self.pods[pod.key]
        self.by_node[pod.spec.node_name].discard(pod.key)

    def see_waiting(self, pod: UnboundPod) -> bool:
        """Take in a Pod that is not bound; True if its affinity leaves it one Node."""
        name = pinned(pod)
        if name:
            self.waiting[pod.key] = pod
            self.pinned_to.setdefault(name, set()).add(pod.key)
        return bool(name)

    def forget_waiting(self, pod: UnboundPod) -> None:
        """Drop a Pod that is bound or gone, unless another of the same name has come in between."""
        known = self.waiting.get(pod.key)
        if known is not None and known.metadata.uid == pod.metadata.uid:
            del self.waiting[pod.key]
            self.pinned_to[pinned(known)].discard(pod.key)

    def address_for(self, node: Node, *, settings: Settings) -> str:
        """Leave a Node its address, or choose one if it came without: no other has it, and it keeps it for good."""
        name = node.metadata.name
        if own := _internal(node):
            return own
        if name not in self._given:
            taken = {one.address for node in self.nodes.values() for one in node.status.addresses}
            taken.update(self._given.values())
            free = (settings.address_of(number) for number in count(settings.nodes))
            self._given[name] = settings.trait(name).address or next(one for one in free if one not in taken)
        return self._given[name]

    def host(self, name: str) -> Host | None:
        """Return the Node as its Pods see it; None if it is not one of ours."""
        node = self.nodes.get(name)
        if node is None:
            return None
        return Host(address=_internal(node), taints=node.spec.taints)

    def _address(self, pod: Pod) -> str:
        """Give each Pod an address of its own; after a restart, beyond all that are in use."""
        if pod.status.pod_ip and not pod.spec.host_network:
            taken = int(IPv4Address(pod.status.pod_ip))
            if self._next_address <= taken < LAST_ADDRESS:
                self._next_address = taken + 1
            return pod.status.pod_ip
        given, self._next_address = self._next_address, self._next_address + 1
        if self._next_address > LAST_ADDRESS:
            self._next_address = FIRST_ADDRESS
        return str(IPv4Address(given))


def _internal(node: Node) -> str:
    return next((one.address for one in node.status.addresses if one.type == "InternalIP"), "")


def _told(times: PodTimes, *, before: Pod | None, pod: Pod, clock: float) -> PodTimes:
    """Add to a Pod's times what was read last: that it runs, was restarted, or was deleted."""
    if pod.status.phase == "Running" and (before is None or _runs(before) != _runs(pod)):
        times = replace(times, started=clock)
    deleted = pod.metadata.deletion_timestamp is not None
    if deleted and (before is None or before.metadata.deletion_timestamp is None):
        times = replace(times, deleted=clock)
    return times


def _runs(pod: Pod) -> int:
    """Count the starts of its containers."""
    if pod.status.phase != "Running" and pod.status.phase not in ENDED:
        return 0
    return 1 + sum(container.restart_count for container in pod.status.container_statuses)


def _older(one: Node | Pod, other: Node | Pod) -> bool:
    """Compare versions. They are numbers in every API server there is, and by contract since Kubernetes 1.35."""
    if one.metadata.uid != other.metadata.uid:
        return False
    return int(one.metadata.resource_version) < int(other.metadata.resource_version)
