"""Put SUNK and a Slurm cluster on a local Kubernetes, and run a job to prove it.

By nothing but Helm and kubectl, with the charts of this clone: what a person would type elsewhere.
"""

import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec import Struct

from sunk.local import paths
from sunk.local.kubernetes import assets, cluster as clusters
from sunk.local.kubernetes.assets import Assets
from sunk.local.kubernetes.cluster import LocalCluster
from sunk.local.progress import step
from sunk.local.shell import run
from sunk.model import names
from sunk.model.refusal import Refusal

OPERATOR: Final = "sunk"
SLURM: Final = "slurm"
NAMESPACE: Final = "default"
PATIENCE: Final = 240
_DEFINITION: Final = f"slurmclusters.{names.GROUP}"
_LOGIN: Final = f"{SLURM}-login-0"
USER: Final = "alice"
"""Whose job it is: values-local.yaml brings her."""
_ACCOUNT: Final = "local"


class Installed(Struct, frozen=True):
    """What a job of a user on every node printed."""

    words: str


class Tools(Struct, frozen=True):
    """Helm and kubectl, turned to one cluster."""

    folder: Path
    kubeconfig: Path

    def __call__(self, program: str, *arguments: str, timeout: float = PATIENCE + 30) -> str:
        env = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        return run([self.folder / program, *arguments], timeout=timeout, env=env)


def install(cluster: LocalCluster, *, values: Sequence[Path] = ()) -> Installed:
    """Install, or bring up to date what was installed from an older tree."""
    there = assets.fill()
    tools = Tools(folder=there.parts.kubectl.parent, kubeconfig=cluster.kubeconfig)
    _bring_images(cluster, there)
    charts = paths.project() / "charts"
    with step("Install the operator"):
        _operator(tools, charts, there)
    with step("Install a Slurm cluster and wait until it is ready"):
        _slurm(tools, charts, values)
    with step("Run a job on every node"):
        return Installed(_job(tools, nodes=len(cluster.machines)))


def _bring_images(cluster: LocalCluster, there: Assets) -> None:
    """A cluster that was left running may hold images of an older tree."""
    for image in there.images:
        if image not in cluster.images:
            clusters.load(cluster, Path(image))


def _operator(tools: Tools, charts: Path, there: Assets) -> None:
    # Images keep their names when they change: the Pods are told by this that they run an old one.
    images = sha256("\n".join(there.images).encode()).hexdigest()[:16]
    where = ("--namespace", OPERATOR, "--create-namespace")
    looks = ("--set", f"namespaces={{{NAMESPACE}}}", *taking_over(tools))
    told = ("--set-string", f"podAnnotations.images={images}", "--wait", "--timeout", f"{PATIENCE}s")
    tools("helm", "upgrade", "--install", OPERATOR, str(charts / OPERATOR), *where, *looks, *told)


def taking_over(tools: Tools) -> tuple[str, ...]:
    """How to meet definitions that somebody else has left. A release that is still there keeps them."""
    notes = r"meta\.helm\.sh/release-name", r"meta\.helm\.sh/release-namespace"
    shown = " ".join(("{.metadata.name}", *(f"{{.metadata.annotations.{note}}}" for note in notes)))
    asked = ("get", "crd", _DEFINITION, "--ignore-not-found", "--output", f"jsonpath={shown}")
    # Nothing: not there. The name alone: put there by hand, as with kubectl apply.
    _, *owner = tools("kubectl", *asked).split() or ("", OPERATOR, OPERATOR)
    if owner == [OPERATOR, OPERATOR]:
        return ()
    if owner:
        _require_gone(tools, *owner)
    return ("--take-ownership", "--set", "crds.takeOver=true")


def _require_gone(tools: Tools, release: str, namespace: str) -> None:
    if tools("helm", "list", "--namespace", namespace, "--filter", f"^{release}$", "--short").strip():
        raise Refusal(
            f"another operator is installed as release {release} in namespace {namespace} and would conflict with this "
            f"one. Remove it first: helm uninstall {release} --namespace {namespace}. SlurmClusters stay."
        )


def _slurm(tools: Tools, charts: Path, values: Sequence[Path]) -> None:
    chart = charts / SLURM
    files = [word for file in (chart / "values-local.yaml", *values) for word in ("--values", str(file))]
    tools("helm", "upgrade", "--install", SLURM, str(chart), "--namespace", NAMESPACE, *files)
    try:
        limit = f"--timeout={PATIENCE}s"
        tools("kubectl", "wait", "--for=condition=Ready", f"slurmcluster/{SLURM}", "--namespace", NAMESPACE, limit)
    except Refusal as late:
        shown = tools("kubectl", "get", "slurmcluster,nodeset,pods", "--namespace", NAMESPACE, "--output", "wide")
        raise Refusal(f"the Slurm cluster was not ready within {PATIENCE} s:\n{shown}") from late


def _job(tools: Tools, *, nodes: int) -> str:
    where = ("--namespace", NAMESPACE, _LOGIN, "--container", "sshd")
    # Said to the database more than once it is an error, and switched off it is another.
    for wanted in (f"account {_ACCOUNT}", f"user {USER} account={_ACCOUNT}"):
        added = f"sacctmgr --immediate add {wanted} > /dev/null 2>&1 || true"
        tools("kubectl", "exec", *where, "--", "sh", "-c", added)
    return tools("kubectl", "exec", *where, "--", "su", "-", USER, "-c", f"srun --nodes={nodes} hostname").strip()
