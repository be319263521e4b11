"""A namespace on a bare API server that knows our kinds, with kubectl and Helm in it."""

import json
import secrets
import subprocess
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from tests import crds
from tests.conftest import Kubectl
from tests.helm import CHART, Helm

from sunk.local.kubernetes import assets
from sunk.local.kubernetes.cluster import LocalCluster

Try = Callable[[Sequence[dict[str, Any]]], list[str]]


@pytest.fixture
def kubectl(api: LocalCluster) -> Iterator[Kubectl]:
    parts = assets.fill(images=False).parts
    tool = Kubectl(program=parts.kubectl, kubeconfig=api.kubeconfig, namespace=f"test-{secrets.token_hex(4)}")
    tool("create", "namespace", tool.namespace)
    tool("apply", "--server-side", "--force-conflicts", "-f", str(CHART / "templates" / "crds"))
    crds.until_served(tool)
    # Without the account that every Pod gets, the API server refuses Pods.
    tool("wait", "--for=create", "serviceaccount/default", "--timeout=90s")
    yield tool
    tool("delete", "namespace", tool.namespace, "--wait=false")


@pytest.fixture
def helm(kubectl: Kubectl) -> Helm:
    return Helm(assets.fill(images=False).parts.helm, kubectl)


@pytest.fixture
def tried(kubectl: Kubectl) -> Try:
    """Apply objects on the server without doing it; a field that it does not know is an error. Gives what it says."""

    def apply(objects: Sequence[dict[str, Any]]) -> list[str]:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        options = ("--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
        return kubectl("apply", *options, stdin=text).splitlines()

    return apply


def attempt(kubectl: Kubectl, body: dict[str, Any]) -> str:
    """What the server says against an object; empty if it takes it."""
    where = ("--kubeconfig", str(kubectl.kubeconfig), "--namespace", kubectl.namespace)
    options = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
    command = [str(kubectl.program), *where, *options]
    done = subprocess.run(command, input=json.dumps(body), capture_output=True, text=True, check=False, timeout=60)
    return done.stderr if done.returncode else ""
