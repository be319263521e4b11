"""A process in a Pod outlives the CA of its cluster."""

import base64
import logging
from pathlib import Path

import pytest
import yaml
from tests.conftest import Kube
from yarl import URL

from sunk.kube.api.client import Client
from sunk.kube.auth import access, credentials
from sunk.kube.core import PODS
from sunk.kube.errors import Unreachable
from sunk.local.kubernetes.pki import NEW_KEY
from sunk.local.shell import run


def other_authority(folder: Path) -> bytes:
    made = folder / "other.crt"
    form = ("-x509", "-days", "1", "-subj", "/CN=other")
    run(["openssl", "req", *NEW_KEY, *form, "-keyout", folder / "other.key", "-out", made])
    return made.read_bytes()


@pytest.fixture
def pod(kube: Kube, tmp_path: Path) -> tuple[access.Access, Path, bytes]:
    """The files of a Pod's account, whose CA is still another than the one of the API server, and the right one."""
    config = yaml.safe_load(kube.kubeconfig.read_text())
    (cluster,), (user,) = config["clusters"], config["users"]
    (tmp_path / "token").write_text(user["user"]["token"])
    (tmp_path / "namespace").write_text(kube.namespace)
    (tmp_path / "ca.crt").write_bytes(other_authority(tmp_path))
    at = URL(cluster["cluster"]["server"])
    env = {"KUBERNETES_SERVICE_HOST": str(at.host), "KUBERNETES_SERVICE_PORT": str(at.port)}
    right = base64.b64decode(cluster["cluster"]["certificate-authority-data"])
    return access.in_cluster(tmp_path, env=env), tmp_path / "ca.crt", right


async def test_a_new_ca_is_trusted_without_a_restart_and_a_broken_file_is_not_minded(
    pod: tuple[access.Access, Path, bytes], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found, authority, right = pod
    monkeypatch.setattr(credentials, "TOKEN_LIFE", 0.0)
    async with Client(found) as client:
        with pytest.raises(Unreachable, match="set the CA"):
            await client.list(PODS)
        authority.write_bytes(right)
        with caplog.at_level(logging.INFO):
            await client.list(PODS)
        assert "new CA" in caplog.text

        authority.write_text("not a certificate")
        await client.list(PODS)
        authority.unlink()
        await client.list(PODS)
        assert "keeping the previous CA" in caplog.text
