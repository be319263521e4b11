"""Keys, certificates and tokens of a local cluster, made for each one."""

import base64
import secrets
from pathlib import Path

import msgspec

from sunk.local.kubernetes.network import API_PORT, LocalNetwork
from sunk.local.shell import run

# EC keys: made in milliseconds, where RSA takes a second on a small machine.
NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc")
DAYS = "3650"

# Python 3.13 checks certificates strictly: an authority must say that it signs, and a server that it is none.
EXTENSIONS = """
[req]
distinguished_name = subject
[subject]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
extendedKeyUsage = serverAuth
authorityKeyIdentifier = keyid
subjectAltName = {alternatives}
[client]
basicConstraints = critical, CA:FALSE
extendedKeyUsage = clientAuth
authorityKeyIdentifier = keyid
"""

CONTROL_PLANE = {
    "admin": ("sunk-local-admin", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "proxy": ("system:kube-proxy", "system:node-proxier"),
    "dns": ("sunk-local-dns", "system:masters"),
}


class Identity(msgspec.Struct, frozen=True):
    """Who a part of the cluster is for the API server."""

    name: str
    user: str
    groups: str
    token: str


def identities(nodes: tuple[str, ...]) -> tuple[Identity, ...]:
    people = {**CONTROL_PLANE, **{node: (f"system:node:{node}", "system:nodes") for node in nodes}}
    return tuple(
        Identity(name=name, user=user, groups=groups, token=secrets.token_urlsafe(24))
        for name, (user, groups) in people.items()
    )


def make(folder: Path, *, network: LocalNetwork, known: tuple[Identity, ...]) -> None:
    """Fill `folder` with the authority, the API server's certificates, the token file and a kubeconfig for each."""
    folder.mkdir(parents=True, mode=0o700)
    (folder / "openssl.conf").write_text(EXTENSIONS.format(alternatives=_alternatives(network)))
    _certificate(folder, "authority", subject="/CN=sunk-local")
    _certificate(folder, "server", subject="/CN=kube-apiserver", signed=True)
    _certificate(folder, "client", subject="/O=system:masters/CN=kube-apiserver", signed=True)
    run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", folder / "accounts.key"])
    rows = (f'{each.token},{each.user},{each.name},"{each.groups}"\n' for each in known)
    _for_root(folder / "tokens.csv", "".join(rows).encode())
    for each in known:
        kubeconfig(
            folder / f"{each.name}.kubeconfig", authority=folder / "authority.crt", network=network, token=each.token
        )


def _alternatives(network: LocalNetwork) -> str:
    names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
    addresses = ("127.0.0.1", network.api, network.api_service)
    return ",".join([*(f"DNS:{name}" for name in names), *(f"IP:{address}" for address in addresses)])


def _certificate(folder: Path, name: str, *, subject: str, signed: bool = False) -> None:
    signer = ("-CA", folder / "authority.crt", "-CAkey", folder / "authority.key") if signed else ()
    form = ("-x509", "-days", DAYS, "-config", folder / "openssl.conf", "-extensions", name, "-subj", subject)
    files = ("-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt")
    run(["openssl", "req", *NEW_KEY, *form, *signer, *files])


def kubeconfig(file: Path, *, authority: Path, network: LocalNetwork, token: str) -> None:
    """Write it whole, the authority inside: it can be copied elsewhere. JSON is YAML too."""
    name = network.namespace
    server = {
        "server": f"https://{network.api}:{API_PORT}",
        "certificate-authority-data": base64.b64encode(authority.read_bytes()).decode(),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": server}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    _for_root(file, msgspec.json.format(msgspec.json.encode(config)))


def _for_root(file: Path, content: bytes) -> None:
    """Write a file that nobody else may read at any moment."""
    file.touch(mode=0o600)
    file.chmod(0o600)
    file.write_bytes(content)
