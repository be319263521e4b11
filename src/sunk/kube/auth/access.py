"""Where the API server is, how to trust it, and who we are to it.

Two sources: a kubeconfig file, and what Kubernetes puts into every Pod. Both end in one `Access`, so that nothing
further on knows the difference. Who we are comes in two shapes: a client certificate is part of the TLS context; all
else is a `Credentials` that is asked again for every request, because tokens grow old.
"""

import base64
import binascii
import ssl
import tempfile
from collections.abc import Mapping
from functools import partial
from os import environ, pathsep
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import yaml
from msgspec import Struct, field

from sunk.kube.auth.credentials import AccessError, Account, Credentials, Nobody, Token, TokenFile, read
from sunk.kube.auth.plugin import VERSIONS, Extension, Plugin, Program, configuration

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Access(Struct, frozen=True):
    """All a client needs to know. `server_name` is set where the certificate names another host than the address."""

    server: str
    tls: ssl.SSLContext | None
    credentials: Credentials
    namespace: str = "default"
    server_name: str | None = None


def find(kubeconfig: Path | str | None = None, *, context: str | None = None) -> Access:
    """Take the file named, else the one in KUBECONFIG, else the Pod's own account, else ~/.kube/config."""
    named = kubeconfig or environ.get("KUBECONFIG")
    if not named and not context and "KUBERNETES_SERVICE_HOST" in environ:
        return in_cluster()
    return from_kubeconfig(named or Path.home() / ".kube" / "config", context=context)


def in_cluster(folder: Path = SERVICE_ACCOUNT, *, env: Mapping[str, str] = environ) -> Access:
    """Speak as the service account of the Pod we run in."""
    host, port = env.get("KUBERNETES_SERVICE_HOST"), env.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise AccessError("KUBERNETES_SERVICE_HOST is not set, so this is not a Pod: specify a kubeconfig file instead")
    read(folder / "token", wanted="the Pod's token")
    return Access(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        tls=_trust(read(folder / "ca.crt", wanted="the cluster's CA"), where=folder / "ca.crt"),
        credentials=Account(TokenFile(folder / "token"), folder / "ca.crt", partial(_trust, where=folder / "ca.crt")),
        namespace=read(folder / "namespace", wanted="the Pod's namespace").decode().strip(),
    )


class _Cluster(Struct, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    extensions: tuple[Extension, ...] = ()


class _User(Struct, rename="kebab"):
    token: str = ""
    token_file: str = field(name="tokenFile", default="")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    exec: Program | None = None


class _Context(Struct):
    cluster: str
    user: str = ""
    namespace: str = "default"


class _NamedCluster(Struct):
    name: str
    cluster: _Cluster


class _NamedUser(Struct):
    name: str
    user: _User


class _NamedContext(Struct):
    name: str
    context: _Context


class _Kubeconfig(Struct, rename="kebab"):
    clusters: tuple[_NamedCluster, ...] = ()
    users: tuple[_NamedUser, ...] = ()
    contexts: tuple[_NamedContext, ...] = ()
    current_context: str = ""


def from_kubeconfig(path: Path | str, *, context: str | None = None) -> Access:
    """Speak as the named context of a kubeconfig, or as its current one."""
    if pathsep in str(path):
        raise AccessError(f"KUBECONFIG lists several files ({path}), which is not supported: specify one of them")
    path = Path(path).expanduser()
    config = _parse(path)
    chosen = context or config.current_context
    if not chosen:
        raise AccessError(f"{path} has no current-context: choose one of {_names(config.contexts)}")
    view = _pick(config.contexts, chosen, what="context", path=path).context
    cluster = _pick(config.clusters, view.cluster, what="cluster", path=path).cluster
    user = _pick(config.users, view.user, what="user", path=path).user if view.user else _User()
    if not cluster.server:
        raise AccessError(f'{path}: cluster "{view.cluster}" has no server: add the address of the API server')
    return Access(
        server=cluster.server.rstrip("/"),
        tls=_tls(cluster, user, path=path) if cluster.server.startswith("https:") else None,
        credentials=_credentials(user, cluster, path=path),
        namespace=view.namespace,
        server_name=cluster.tls_server_name,
    )


def _parse(path: Path) -> _Kubeconfig:
    try:
        tree = yaml.load(read(path, wanted="a kubeconfig"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe loaders
        return msgspec.convert(tree, _Kubeconfig)
    except yaml.YAMLError as error:
        raise AccessError(f"{path} is not YAML ({error}): correct it or specify another file") from error
    except msgspec.ValidationError as error:
        raise AccessError(f"{path} is not a kubeconfig: {error}. Correct it or specify another file") from error


_Named = _NamedCluster | _NamedUser | _NamedContext
N = TypeVar("N", _NamedCluster, _NamedUser, _NamedContext)


def _names(entries: tuple[_Named, ...]) -> str:
    return ", ".join(f'"{entry.name}"' for entry in entries) or "none (the file has none)"


def _pick(entries: tuple[N, ...], name: str, *, what: str, path: Path) -> N:
    for entry in entries:
        if entry.name == name:
            return entry
    raise AccessError(f'{path} has no {what} "{name}"; it has {_names(entries)}: use one of these, or add it')


def _credentials(user: _User, cluster: _Cluster, *, path: Path) -> Credentials:
    if user.token:
        return Token(user.token)
    if user.token_file:
        return TokenFile(path.parent / user.token_file)
    return _plugin(user.exec, cluster, path=path) if user.exec else Nobody()


def _plugin(program: Program, cluster: _Cluster, *, path: Path) -> Plugin:
    if program.api_version not in VERSIONS:
        found = f"has apiVersion {program.api_version}" if program.api_version else "has no apiVersion"
        wanted = " or ".join(VERSIONS)
        raise AccessError(f'{path}: the program "{program.command}" {found}: use {wanted}')
    about = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify or None,
        "certificate-authority-data": base64.b64encode(_authority(cluster, path=path)).decode() or None,
        "config": configuration(cluster.extensions),
    }
    said = {name: value for name, value in about.items() if value is not None}
    return Plugin(program, folder=path.parent, dress=partial(_dress, cluster, path), cluster=said)


def _dress(cluster: _Cluster, path: Path, certificate: bytes, key: bytes) -> ssl.SSLContext:
    context = _trusting(cluster, path=path)
    _present(context, certificate=certificate, key=key or certificate, path=path)
    return context


def _authority(cluster: _Cluster, *, path: Path) -> bytes:
    return _material(cluster.certificate_authority_data, cluster.certificate_authority, path=path, wanted="the CA")


def _trusting(cluster: _Cluster, *, path: Path) -> ssl.SSLContext:
    context = _trust(_authority(cluster, path=path), where=path)
    if cluster.insecure_skip_tls_verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _tls(cluster: _Cluster, user: _User, *, path: Path) -> ssl.SSLContext:
    context = _trusting(cluster, path=path)
    certificate = _material(
        user.client_certificate_data, user.client_certificate, path=path, wanted="the client certificate"
    )
    if certificate:
        key = _material(user.client_key_data, user.client_key, path=path, wanted="the client key")
        _present(context, certificate=certificate, key=key or certificate, path=path)
    return context


def _trust(pem: bytes, *, where: Path) -> ssl.SSLContext:
    """Trust exactly this CA; without one, what the system trusts."""
    try:
        return ssl.create_default_context(cadata=pem.decode() if pem else None)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise AccessError(f"{where}: the CA is not a PEM certificate ({error}): set it to the cluster's CA") from error


def _present(context: ssl.SSLContext, *, certificate: bytes, key: bytes, path: Path) -> None:
    # OpenSSL takes a certificate chain from files only; these live for the length of one call, readable by us alone.
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "certificate"), Path(folder, "key")
        for file, content in zip(files, (certificate, key), strict=True):
            file.write_bytes(content)
        try:
            context.load_cert_chain(*files)
        except ssl.SSLError as error:
            raise AccessError(
                f"{path}: the client certificate and its key do not match ({error}): correct one of them"
            ) from error


def _material(data: str, file: str, *, path: Path, wanted: str) -> bytes:
    """Read what stands in the kubeconfig itself, or in a file whose name is relative to the kubeconfig."""
    if not data:
        return read(path.parent / file, wanted=f"{wanted} that {path} names") if file else b""
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise AccessError(f"{path}: {wanted} is not base64 ({error}): correct it") from error
