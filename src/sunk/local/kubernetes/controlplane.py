"""The control plane of a local cluster: etcd, API server, controller-manager, scheduler and DNS."""

from pathlib import Path
from typing import Any

import msgspec

from sunk.local.artifacts.parts import Parts
from sunk.local.kubernetes.network import API_PORT, LocalNetwork
from sunk.local.kubernetes.process import Daemon

ETCD = "http://127.0.0.1:2379"

# Nodes renew their leases once in ten seconds. A kubelet on a busy two-core machine may be late, and a fake one with
# thousands of Nodes renews far less often, so a Node counts as lost later than by Kubernetes' default of 50 s.
API_ONLY_GRACE = "300s"

COREFILE = """\
.:53 {{
    bind {address}
    errors
    ready 127.0.0.1:8181
    cache 5
    kubernetes cluster.local in-addr.arpa {{
        endpoint_pod_names
        kubeconfig {kubeconfig}
    }}
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


class ControlPlane(msgspec.Struct, frozen=True):
    """What each of its daemons is started with."""

    parts: Parts
    folder: Path
    network: LocalNetwork

    def etcd(self) -> Daemon:
        flags = (
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={ETCD}",
            f"--advertise-client-urls={ETCD}",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--log-level=warn",
            # A local cluster does not outlive its machine; waiting for the disk would only make it slow.
            "--unsafe-no-fsync",
        )
        return self._daemon("etcd", flags=flags)

    def api_server(self) -> Daemon:
        pki = self.folder / "pki"
        flags = (
            f"--etcd-servers={ETCD}",
            f"--advertise-address={self.network.api}",
            f"--secure-port={API_PORT}",
            f"--tls-cert-file={pki / 'server.crt'}",
            f"--tls-private-key-file={pki / 'server.key'}",
            f"--client-ca-file={pki / 'authority.crt'}",
            f"--kubelet-client-certificate={pki / 'client.crt'}",
            f"--kubelet-client-key={pki / 'client.key'}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--service-account-key-file={pki / 'accounts.key'}",
            f"--service-account-signing-key-file={pki / 'accounts.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--token-auth-file={pki / 'tokens.csv'}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--service-cluster-ip-range={self.network.services}",
            "--allow-privileged",
            # Left on, priority and fairness queues the many small writes of one test client behind each other.
            "--enable-priority-and-fairness=false",
            "--max-requests-inflight=0",
            "--max-mutating-requests-inflight=0",
        )
        return self._daemon("kube-apiserver", flags=flags)

    def controller_manager(self, *, api_only: bool) -> Daemon:
        pki = self.folder / "pki"
        flags = (
            f"--kubeconfig={pki / 'controller-manager.kubeconfig'}",
            f"--service-account-private-key-file={pki / 'accounts.key'}",
            f"--root-ca-file={pki / 'authority.crt'}",
            f"--cluster-cidr={self.network.pods}",
            "--use-service-account-credentials",
            "--leader-elect=false",
            *((f"--node-monitor-grace-period={API_ONLY_GRACE}",) if api_only else ()),
            # By default it writes 20 times a second, and marking 5,000 Nodes would take it minutes.
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        )
        return self._daemon("kube-controller-manager", flags=flags)

    def scheduler(self) -> Daemon:
        flags = (f"--kubeconfig={self.folder / 'pki' / 'scheduler.kubeconfig'}", "--leader-elect=false")
        return self._daemon("kube-scheduler", flags=flags)

    def dns(self) -> Daemon:
        corefile = self.folder / "Corefile"
        corefile.write_text(
            COREFILE.format(address=self.network.api, kubeconfig=self.folder / "pki" / "dns.kubeconfig")
        )
        return Daemon(name="dns", command=(str(self.parts.dns), "-conf", str(corefile)), network=self.network.namespace)

    def _daemon(self, name: str, *, flags: tuple[str, ...]) -> Daemon:
        return Daemon(name=name, command=(str(self.parts.kubernetes), name, *flags), network=self.network.namespace)


def dns_objects(network: LocalNetwork) -> list[dict[str, Any]]:
    """The Service that Pods ask, with the control plane's DNS behind it: it runs beside the API server, not in Pods."""
    ports = [{"name": f"dns-{protocol.lower()}", "port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]
    name, namespace = "kube-dns", "kube-system"
    service: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterIP": network.dns_service, "ports": ports},
    }
    endpoints: dict[str, Any] = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": namespace, "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [network.api]}],
        "ports": ports,
    }
    return [service, endpoints]
