"""Every way to an API server, and what is said where there is none."""

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import json

from sunk.kube.auth import access
from sunk.kube.auth.credentials import TOKEN_LIFE, AccessError, Account, Nobody, Proof, Token, TokenFile

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a kubeconfig; keywords replace its cluster, user and top level."""

    def write(*, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **top: Any) -> Path:
        tree = {
            "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443/"} | (cluster or {})}],
            "users": [{"name": "u", "user": user or {}}],
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "shop"}}],
            "current-context": "here",
        }
        path = tmp_path / "config"
        path.write_bytes(json.encode(tree | {name.replace("_", "-"): value for name, value in top.items()}))
        return path

    return write


def test_the_current_context_says_server_and_namespace(write: Write) -> None:
    found = access.from_kubeconfig(write(user={"token": "t"}))
    assert (found.server, found.namespace) == ("https://10.0.0.1:6443", "shop")
    assert found.credentials == Token("t")


def test_a_context_can_be_named(write: Write) -> None:
    contexts = [
        {"name": "a", "context": {"cluster": "c"}},
        {"name": "b", "context": {"cluster": "c", "namespace": "x"}},
    ]
    found = access.from_kubeconfig(write(contexts=contexts), context="b")
    assert (found.namespace, found.credentials) == ("x", Nobody())


def test_verification_can_be_switched_off(write: Write) -> None:
    found = access.from_kubeconfig(write(cluster={"insecure-skip-tls-verify": True}))
    assert found.tls is not None
    assert not found.tls.check_hostname


def test_a_plain_server_gets_no_tls(write: Write) -> None:
    assert access.from_kubeconfig(write(cluster={"server": "http://10.0.0.1:80"})).tls is None


def test_a_token_file_is_found_beside_the_kubeconfig(write: Write) -> None:
    path = write(user={"tokenFile": "token"})
    assert access.from_kubeconfig(path).credentials == TokenFile(path.parent / "token")


@pytest.mark.looptime
async def test_a_token_file_is_read_again_when_the_token_may_have_changed(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old\n")
    token = TokenFile(path)
    assert await token.proof() == Proof("Bearer old")
    path.write_text("new\n")
    assert await token.proof() == Proof("Bearer old")
    await asyncio.sleep(TOKEN_LIFE)
    assert await token.proof() == Proof("Bearer new")


@pytest.mark.looptime
async def test_a_refused_token_is_read_again_at_once(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    token = TokenFile(path)
    old = await token.proof()
    assert not await token.refused(old)
    path.write_text("new")
    assert await token.refused(old)
    assert await token.proof() == Proof("Bearer new")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"current_context": ""}, 'has no current-context: choose one of "here"'),
        ({"current_context": "there"}, 'has no context "there"; it has "here"'),
        ({"clusters": []}, 'has no cluster "c"; it has none'),
        ({"users": []}, 'has no user "u"'),
        ({"cluster": {"server": ""}}, 'cluster "c" has no server'),
        ({"cluster": {"certificate-authority": "none.crt"}}, "none.crt should hold the CA"),
        ({"cluster": {"certificate-authority-data": "%%%"}}, "the CA is not base64"),
        (
            {"cluster": {"certificate-authority-data": base64.b64encode(b"x").decode()}},
            "the CA is not a PEM certificate",
        ),
        (
            {"user": {"client-certificate-data": base64.b64encode(b"x").decode()}},
            "certificate and its key do not match",
        ),
        ({"user": {"exec": {"command": "login"}}}, "missing required field `apiVersion`"),
        (
            {"user": {"exec": {"command": "login", "apiVersion": "v1"}}},
            "has apiVersion v1: use client.authentication.k8s.io/v1",
        ),
        ({"clusters": "c"}, "is not a kubeconfig"),
    ],
)
def test_a_bad_kubeconfig_is_refused_with_the_file_and_what_is_wrong(
    write: Write, changes: dict[str, Any], said: str
) -> None:
    path = write(**changes)
    with pytest.raises(AccessError) as refused:
        access.from_kubeconfig(path)
    assert said in str(refused.value)
    assert str(path.parent) in str(refused.value)


def test_a_missing_kubeconfig_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match=r"none should hold a kubeconfig: No such file"):
        access.from_kubeconfig(tmp_path / "none")


def test_text_that_is_no_yaml_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("{")
    with pytest.raises(AccessError, match="is not YAML"):
        access.from_kubeconfig(path)


def test_several_files_are_refused_rather_than_half_read() -> None:
    with pytest.raises(AccessError, match="specify one of them"):
        access.from_kubeconfig("/a:/b")


@pytest.fixture
def account(tmp_path: Path, kubernetes_ca: str) -> Path:
    for name, content in {"token": "t", "namespace": "shop", "ca.crt": kubernetes_ca}.items():
        (tmp_path / name).write_text(content)
    return tmp_path


@pytest.fixture
def kubernetes_ca() -> str:
    """Take any certificate that the system trusts: what matters is that it is one."""
    import ssl

    context = ssl.create_default_context()
    return ssl.DER_cert_to_PEM_cert(context.get_ca_certs(binary_form=True)[0])


def test_a_pod_speaks_as_its_service_account(account: Path) -> None:
    found = access.in_cluster(account, env={"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"})
    assert (found.server, found.namespace) == ("https://[fd00::1]:443", "shop")
    assert isinstance(found.credentials, Account)
    assert (found.credentials.token, found.credentials.authority) == (TokenFile(account / "token"), account / "ca.crt")


def test_outside_a_pod_the_service_account_is_refused(account: Path) -> None:
    with pytest.raises(AccessError, match="this is not a Pod"):
        access.in_cluster(account, env={})


def test_the_kubeconfig_in_the_environment_wins_over_the_pod(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.9")
    monkeypatch.setenv("KUBECONFIG", str(write()))
    assert access.find().server == "https://10.0.0.1:6443"
