"""`sunk keys`: what a person does to the Secret of a cluster, and what is refused."""

import base64
import subprocess
import sys
from pathlib import Path

from tests.conftest import Kube

from sunk.insight.keys.secret import SECRETS
from sunk.model.contract import keyset

OLD = b"o" * 1024
NAME = "slurm-auth-slurm"


def sunk(kube: Kube, *words: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("sunk")
    where = ("--namespace", kube.namespace, "--kubeconfig", str(kube.kubeconfig))
    command = [str(program), "keys", *words, *where]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


async def stored(kube: Kube) -> tuple[keyset.KeySet, bytes]:
    data = (await kube.client.get(SECRETS, NAME, namespace=kube.namespace)).data
    return keyset.read(base64.b64decode(data["slurm.jwks"])), base64.b64decode(data["slurm.key"])


async def test_a_person_exchanges_the_key_step_by_step(kube: Kube) -> None:
    body = {"metadata": {"name": NAME}, "data": {"slurm.key": base64.b64encode(OLD).decode(), "mine": "eA=="}}
    await kube.client.create(SECRETS, body, namespace=kube.namespace)
    assert sunk(kube, "list").stdout == "first  (in use)\n"

    added = sunk(kube, "add", "--id", "second")
    assert added.stdout.startswith("first  (in use)\nsecond\n"), added.stderr
    assert "scontrol reconfigure" in added.stdout
    assert (await stored(kube))[1] == OLD
    refused = sunk(kube, "drop", "first")
    assert (refused.returncode, "first is in use" in refused.stderr) == (2, True)

    assert sunk(kube, "use", "second").returncode == 0
    keys, single = await stored(kube)
    assert (keys.default.kid, keys.default.value) == ("second", single)
    assert sunk(kube, "drop", "first").returncode == 0
    assert (await stored(kube))[0].ids == ("second",)
    assert (await kube.client.get(SECRETS, NAME, namespace=kube.namespace)).data["mine"] == "eA=="


async def test_a_cluster_that_is_not_there_is_named(kube: Kube) -> None:
    told = sunk(kube, "add", "--cluster", "other")
    assert told.returncode == 2
    assert "other-auth-slurm" in told.stderr
