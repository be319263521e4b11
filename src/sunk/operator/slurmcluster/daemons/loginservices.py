"""How people reach login Pods: one Service for all of them, and one for each on demand.

That of a Pod must not have the name of the Pod. By that name srun and X11 on a node connect back to it, on any port, and a
Service of that name would come first and have the port of sshd only.
"""

from collections.abc import Iterator
from typing import Any, Final

from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.builders.hostkeys import SSH, SSH_PORT
from sunk.operator.slurmcluster.builders.metadata import LOGIN, metadata, selector
from sunk.operator.slurmcluster.builders.pods import Object
from sunk.operator.slurmcluster.resolve import ResolvedCluster

PUBLIC: Final = {"service.beta.kubernetes.io/coreweave-load-balancer-type": "public"}
HOST_NAME: Final = "external-dns.alpha.kubernetes.io/hostname"
POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
"""Label that Kubernetes gives to Pods of StatefulSets."""


def objects(cluster: ResolvedCluster) -> Iterator[Object]:
    wanted = cluster.spec.login
    yield _service(cluster, name=LOGIN.name, host=wanted.service.dns_name)
    for number in range(wanted.replicas if wanted.service.per_pod else 0):
        pod = cluster.named(f"{LOGIN.name}-{number}")
        host = f"{pod}.{wanted.service.dns_name}" if wanted.service.dns_name else ""
        made = _service(cluster, name=f"{LOGIN.name}-{number}-{SSH}", host=host)
        made["spec"]["selector"] |= {POD_NAME: pod}
        yield made


def _service(cluster: ResolvedCluster, *, name: str, host: str) -> Object:
    wanted = cluster.spec.login.service
    annotations = (PUBLIC if wanted.expose_public_ip else {}) | ({HOST_NAME: host} if host else {}) | wanted.annotations
    spec: Object = {"type": wanted.type, "selector": selector(cluster, LOGIN), "ports": [*ports(cluster)]}
    # Only Services that are reached from outside have it.
    spec |= {"externalTrafficPolicy": wanted.external_traffic_policy} if wanted.type != "ClusterIP" else {}
    meta = metadata(cluster, LOGIN, name=name, annotations=annotations)
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def shows_addresses(cluster: ResolvedCluster) -> bool:
    """Whether sshd sees the addresses of clients. Otherwise all have that of a Node, or of what stands before a ClusterIP."""
    wanted = cluster.spec.login.service
    return wanted.type != "ClusterIP" and wanted.external_traffic_policy == "Local"


def ports(cluster: ResolvedCluster) -> Iterator[Object]:
    yield {"name": SSH, "port": SSH_PORT, "targetPort": SSH_PORT}
    taken = {("TCP", SSH_PORT): SSH}
    for index, port in enumerate(cluster.spec.login.service.additional_ports):
        at = f"login.service.additionalPorts[{index}]"
        if port.name == SSH:
            raise Refusal(f"{at}.name: {SSH} is the port of sshd. Choose another name.")
        if other := taken.get((port.protocol, port.port)):
            raise Refusal(f"{at}.port: {other} already uses port {port.port}. Choose another.")
        taken[port.protocol, port.port] = port.name
        made: dict[str, Any] = {"name": port.name, "port": port.port, "targetPort": port.target_port or port.port}
        yield made | ({"protocol": port.protocol} if port.protocol != "TCP" else {})


def reached(cluster: ResolvedCluster) -> list[Object]:
    """The ports of the Pods that anybody may connect to, as in a NetworkPolicy."""
    return [{"protocol": port.get("protocol", "TCP"), "port": port["targetPort"]} for port in ports(cluster)]
