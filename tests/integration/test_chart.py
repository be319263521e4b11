"""The chart of the operator on a real API server: what it installs, grants, updates, and leaves behind."""

import json
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml
from msgspec import Struct
from msgspec.structs import replace
from tests import crds
from tests.conftest import Kubectl
from tests.helm import CHART, Helm
from tests.waiting import eventually

from sunk.local import install
from sunk.local.install import Tools
from sunk.local.kubernetes import assets
from sunk.local.kubernetes.cluster import LocalCluster
from sunk.model.cluster.directory import Directory, DirectoryService
from sunk.model.cluster.kind import SlurmClusterSpec
from sunk.model.names import GROUP, LOCK
from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.daemons import directory, syncer
from sunk.operator.slurmcluster.resolve import resolve
from sunk.service.hooks.keys import CONFIGURATION, KEYS

ACCOUNT = "sunk-controller-manager"
LEASES = "leases.coordination.k8s.io"
REVISIONS = "controllerrevisions.apps"
SETS, SLICES, CLUSTERS = DEFINITIONS = (f"nodesets.{GROUP}", f"nodeslices.{GROUP}", f"slurmclusters.{GROUP}")
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


@pytest.fixture
def kubectl(api: LocalCluster) -> Iterator[Kubectl]:
    parts = assets.fill(images=False).parts
    tool = Kubectl(program=parts.kubectl, kubeconfig=api.kubeconfig, namespace=f"test-{secrets.token_hex(4)}")
    tool("create", "namespace", tool.namespace)
    tool("wait", "--for=create", "serviceaccount/default", "--timeout=90s")
    yield tool
    tool("delete", "namespace", tool.namespace, "--wait=false")


@pytest.fixture
def helm(kubectl: Kubectl) -> Helm:
    return Helm(assets.fill(images=False).parts.helm, kubectl)


@pytest.fixture
def release(helm: Helm) -> Iterator[str]:
    """A name that is free, and a release of that name taken away at the end."""
    name = f"sunk-{secrets.token_hex(3)}"
    yield name
    helm("uninstall", name, "--ignore-not-found")


class Ask(Struct, frozen=True):
    """A question to the API server. `nodesets.group/status` is the subresource of NodeSets; no namespace means all."""

    verb: str
    what: str
    name: str = ""
    namespace: str = ""

    def review(self, account: str) -> dict[str, Any]:
        kind, _, below = self.what.partition("/")
        plural, _, group = kind.partition(".")
        about = {"verb": self.verb, "group": group, "resource": plural, "subresource": below}
        about |= {"name": self.name, "namespace": self.namespace}
        spec = {"user": account, "resourceAttributes": about}
        return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}


def allowed(kubectl: Kubectl, asks: Iterable[Ask], *, account: str = ACCOUNT) -> set[Ask]:
    """Which of these an account may do, as `kubectl auth can-i --as` would say, in one go."""
    asked = list(asks)
    user = f"system:serviceaccount:{kubectl.namespace}:{account}"
    reviews = yaml.safe_dump_all(ask.review(user) for ask in asked)
    said = kubectl("create", "-f", "-", "-o", "jsonpath={.status.allowed}{'\\n'}", stdin=reviews).split()
    return {ask for ask, answer in zip(asked, said, strict=True) if answer == "true"}


def test_the_chart_is_sound(helm: Helm) -> None:
    helm("lint", "--strict", str(CHART))


def apply(kubectl: Kubectl, text: str) -> str:
    """Try objects of several namespaces on the server; kubectl takes them only where it is given none itself."""
    command = [str(kubectl.program), "--kubeconfig", str(kubectl.kubeconfig), "apply", "--server-side"]
    options = ["--dry-run=server", "--force-conflicts", "-f", "-"]
    done = subprocess.run([*command, *options], input=text, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "values",
    [(), ("allNamespaces=true",), ("replicas=3", "namespaces={default,kube-system}", "crds.install=false")],
)
def test_the_api_server_takes_all_that_the_chart_renders(helm: Helm, values: tuple[str, ...]) -> None:
    chosen = [word for value in values for word in ("--set", value)]
    rendered = helm("template", "sunk", str(CHART), *chosen)
    said = apply(helm.kubectl, rendered)
    assert f"deployment.apps/{ACCOUNT}" in said
    assert ("customresourcedefinition" in said) is ("crds.install=false" not in values)


def test_syncers_are_held_to_policies_where_their_operator_looks_after_them(helm: Helm) -> None:
    def bindings(*options: str) -> list[dict[str, Any]]:
        rendered = yaml.safe_load_all(helm("template", "sunk", str(CHART), *options))
        found = [one for one in rendered if one and one["kind"] == "ValidatingAdmissionPolicyBinding"]
        return [one["spec"] for one in found if "-syncer-" in one["metadata"]["name"]]

    def names(spec: dict[str, Any]) -> Any:
        return spec["matchResources"]["namespaceSelector"]["matchExpressions"][0]["values"]

    assert [names(one) for one in bindings()] == [[helm.kubectl.namespace]] * 5
    assert [names(one) for one in bindings("--set", "namespaces={a,b}")] == [["a", "b"]] * 5
    assert ["matchResources" in one for one in bindings("--set", "allNamespaces=true")] == [False] * 5
    assert len(bindings("--set", "crds.install=false")) == 5
    assert bindings("--set", "syncerPolicy.create=false") == []


def test_a_kubernetes_without_policies_gets_none(helm: Helm) -> None:
    older = helm("template", "sunk", str(CHART), "--kube-version", "1.29.15")
    assert "ValidatingAdmissionPolicy" not in older
    assert "ValidatingAdmissionPolicy" in helm("template", "sunk", str(CHART), "--kube-version", "1.30.0")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("replicsa=2", "replicsa"),
        ("replicas=-1", "/replicas"),
        ("image.pullPolicy=Sometimes", "/image/pullPolicy"),
        ("namespaces={Not_A_Name}", "/namespaces/0"),
        ("allNamespaces=true,namespaces={a}", "allNamespaces is true but namespaces lists a: set only one of them"),
    ],
)
def test_a_wrong_value_is_refused_with_its_path(helm: Helm, value: str, said: str) -> None:
    refused = helm.attempt("template", "sunk", str(CHART), "--set", value)
    assert refused.returncode != 0
    assert said in refused.stderr


def test_the_operator_may_do_what_it_must_and_no_more(helm: Helm, release: str) -> None:
    helm.install(release, "--set", "allNamespaces=true")
    kubectl = helm.kubectl
    wanted = {
        "nodes": ("get", "list", "watch", "patch"),
        "nodes/status": ("patch",),
        "pods": ("get", "list", "watch", "create", "patch", "delete"),
        CLUSTERS: ("get", "list", "watch", "patch"),
        f"{CLUSTERS}/status": ("patch",),
        f"{CLUSTERS}/finalizers": ("update",),
        SETS: ("get", "list", "watch", "create", "patch", "delete"),
        f"{SETS}/status": ("patch",),
        f"{SETS}/finalizers": ("update",),
        "deployments.apps": ("get", "list", "watch", "create", "patch", "delete"),
        "statefulsets.apps": ("get", "list", "watch", "create", "patch", "delete"),
        "configmaps": ("get", "list", "watch", "create", "patch", "delete"),
        "services": ("get", "list", "create", "patch", "delete"),
        "persistentvolumeclaims": ("get", "create", "patch"),
        "secrets": ("create",),
        SLICES: ("get", "list", "watch", "create", "patch", "delete"),
        REVISIONS: ("get", "list", "watch", "create", "patch", "delete"),
        "events.events.k8s.io": ("create", "patch"),
        # For the syncer and the directory agent of each Slurm cluster: an account, and of each right at least as much.
        "serviceaccounts": ("get", "list", "create", "patch", "delete"),
        "roles.rbac.authorization.k8s.io": ("get", "list", "create", "patch", "delete"),
        "rolebindings.rbac.authorization.k8s.io": ("get", "list", "create", "patch", "delete"),
        "poddisruptionbudgets.policy": ("get", "list", "create", "patch", "delete"),
        "networkpolicies.networking.k8s.io": ("get", "list", "create", "patch", "delete"),
        "pods/status": ("patch",),
        f"{SLICES}/status": ("patch",),
        LEASES: ("create", "get", "patch"),
    }
    must = {Ask(verb, what) for what, verbs in wanted.items() for verb in verbs}
    eventually(lambda: allowed(kubectl, must) == must)  # it takes a moment until new rights are known

    never = {Ask(verb, what) for what in wanted for verb in VERBS if verb not in wanted[what]}
    below = ("namespaces", "pods/exec", "pods/eviction", "clusterroles.rbac.authorization.k8s.io")
    never |= {Ask(verb, what) for what in below for verb in VERBS}
    never |= {Ask(verb, "roles.rbac.authorization.k8s.io") for verb in ("bind", "escalate")}
    assert allowed(kubectl, never) == set()


def test_the_account_is_enough_to_follow_everything_and_to_lead(
    helm: Helm, release: str, tmp_path: Path, unused_tcp_port: int
) -> None:
    helm.install(release)
    kubectl = helm.kubectl
    config = yaml.safe_load(kubectl.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": kubectl("create", "token", ACCOUNT).strip()}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    own = kubectl.namespace
    options = ("--kubeconfig", str(tmp_path / "kubeconfig"), "--lease-namespace", own, "--namespaces", own)
    program = str(Path(sys.executable).with_name("sunk"))
    with subprocess.Popen([program, "operator", *options, "--port", str(unused_tcp_port)]) as process:
        try:
            eventually(lambda: said_by(unused_tcp_port).endswith("\nok\n"), seconds=120)
            # It is ready before it leads, so the Lease need not be there yet.
            holder = ("get", "lease", ACCOUNT, "--ignore-not-found", "-o", "jsonpath={.spec.holderIdentity}")
            eventually(lambda: bool(kubectl(*holder)))
        finally:
            process.terminate()
    assert process.returncode == 0
    assert kubectl(*holder) == ""


def test_the_operator_may_grant_a_syncer_what_it_needs(helm: Helm, release: str) -> None:
    """Kubernetes lets nobody grant more than he holds."""
    kubectl, own = helm.kubectl, helm.kubectl.namespace
    helm.install(release, "--set", f"namespaces={{{own}}}", "--set", "priorityClass.create=false")
    made = [*syncer.objects(resolve(SlurmClusterSpec(), name="slurm", namespace=own))]
    granting = [one for one in made if one["kind"] in {"ServiceAccount", "Role", "RoleBinding"}]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": granting})
    operator = f"system:serviceaccount:{own}:{ACCOUNT}"
    told = ""

    def granted() -> bool:
        # The rights of the operator are as new, and take a moment to be known.
        nonlocal told
        command = [str(kubectl.program), "--kubeconfig", str(kubectl.kubeconfig), "--namespace", own]
        command += ["apply", "--server-side", "-f", "-", "--as", operator]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)
        told = done.stdout
        return done.returncode == 0

    eventually(granted)
    assert len(told.splitlines()) == len(granting) == 3
    asked = {"verb": "patch", "resource": "pods", "subresource": "status", "namespace": own}
    spec = {"user": f"system:serviceaccount:{own}:slurm-sunk-syncer", "resourceAttributes": asked}
    review = json.dumps({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})
    answer = ("create", "-f", "-", "-o", "jsonpath={.status.allowed}")
    eventually(lambda: kubectl(*answer, stdin=review) == "true")


def test_the_operator_may_grant_a_directory_agent_what_it_needs(helm: Helm, release: str) -> None:
    kubectl, own = helm.kubectl, helm.kubectl.namespace
    helm.install(release, "--set", f"namespaces={{{own}}}", "--set", "priorityClass.create=false")
    spec = SlurmClusterSpec(directory_service=DirectoryService(directories=(Directory(ldap_uri="ldaps://a"),)))
    made = directory.objects(resolve(spec, name="slurm", namespace=own))
    granting = [one for one in made if one["kind"] in {"ServiceAccount", "Role", "RoleBinding"}]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": granting})
    operator = f"system:serviceaccount:{own}:{ACCOUNT}"
    told = kubectl("apply", "--server-side", "-f", "-", "--as", operator, stdin=text)
    assert len(told.splitlines()) == len(granting) == 3

    written = ("slurm-directory", *(f"slurm-directory-logins-{number}" for number in range(4)))
    others = ("slurm-slurm-conf", "slurm-directory-settings", "")
    may = {Ask(verb, "configmaps", name, own) for verb in ("get", "patch") for name in written}
    may |= {Ask("get", "configmaps", "slurm-users", own)}
    asked = {Ask(verb, "configmaps", name, own) for verb in VERBS for name in (*written, "slurm-users", *others)}
    asked |= {Ask(verb, what, namespace=own) for verb in VERBS for what in ("secrets", "pods", CLUSTERS)}
    eventually(lambda: allowed(kubectl, may, account="slurm-directory") == may)
    assert allowed(kubectl, asked, account="slurm-directory") == may


@pytest.mark.parametrize("everywhere", [True, False])
def test_syncers_may_ask_whose_a_token_is_and_write_to_nodes_only_if_an_administrator_lists_them(
    helm: Helm, release: str, *, everywhere: bool
) -> None:
    kubectl, own = helm.kubectl, helm.kubectl.namespace
    where = ("--set", f"allNamespaces={str(everywhere).lower()}", "--set", "priorityClass.create=false")
    helm.install(release, *where, "--set", f"nodePermissions={{{own}/trusted}}")

    def may(account: str, verb: str, resource: str, *, namespace: str = own) -> bool:
        name, _, subresource = resource.partition("/")
        asked = {"verb": verb, "resource": name, "subresource": subresource}
        asked |= {"group": "authentication.k8s.io"} if name == "tokenreviews" else {}
        groups = ["system:authenticated", "system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
        who = {"user": f"system:serviceaccount:{namespace}:{account}-sunk-syncer", "groups": groups}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        text = json.dumps(body | {"spec": who | {"resourceAttributes": asked}})
        return kubectl("create", "-f", "-", "-o", "jsonpath={.status.allowed}", stdin=text) == "true"

    def may_read(path: str) -> bool:
        # Without the group of all accounts, which most clusters let read this anyway.
        group = "system:serviceaccounts" if everywhere else f"system:serviceaccounts:{own}"
        who = {"user": f"system:serviceaccount:{own}:slurm-sunk-syncer", "groups": [group]}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        text = json.dumps(body | {"spec": who | {"nonResourceAttributes": {"path": path, "verb": "get"}}})
        return kubectl("create", "-f", "-", "-o", "jsonpath={.status.allowed}", stdin=text) == "true"

    other = "kube-node-lease"
    eventually(lambda: may("slurm", "create", "tokenreviews"))
    eventually(lambda: [may_read(path) for path in (CONFIGURATION, KEYS)] == [True, True])
    assert not may_read("/metrics")
    eventually(lambda: may("slurm", "create", "tokenreviews", namespace=other) is everywhere)
    eventually(lambda: may("trusted", "patch", "nodes/status"))
    assert not may("trusted", "patch", "nodes/status", namespace=other)
    assert not may("slurm", "patch", "nodes/status")
    for verb in VERBS:
        assert not may("trusted", verb, "nodes")
        assert verb == "patch" or not may("trusted", verb, "nodes/status")


def test_the_operator_tolerates_the_lock_whatever_else_it_is_told_to(helm: Helm) -> None:
    lock = {"key": LOCK, "operator": "Exists"}
    theirs = {"key": "dedicated", "operator": "Exists"}
    for values, expected in (((), [lock]), (("--set-json", f"tolerations=[{json.dumps(theirs)}]"), [lock, theirs])):
        rendered = yaml.safe_load_all(helm("template", "sunk", str(CHART), *values))
        (deployment,) = [one for one in rendered if one and one["kind"] == "Deployment"]
        assert deployment["spec"]["template"]["spec"]["tolerations"] == expected


@pytest.mark.parametrize("seconds", ["0", "2.5", "10"])
def test_the_operator_is_told_how_long_locks_linger(helm: Helm, seconds: str) -> None:
    rendered = yaml.safe_load_all(helm("template", "sunk", str(CHART), "--set-json", f"lockLinger={seconds}"))
    (deployment,) = [one for one in rendered if one and one["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert {"name": "SUNK_LOCK_LINGER", "value": seconds} in container["env"]


def said_by(port: int) -> str:
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


@pytest.mark.parametrize("named", [True, False])
def test_it_may_write_only_where_it_looks_which_is_its_own_namespace_by_default(
    helm: Helm, release: str, *, named: bool
) -> None:
    kubectl, own = helm.kubectl, helm.kubectl.namespace
    where = ("--set", f"namespaces={{{own}}}") if named else ()
    helm.install(release, *where, "--set", "priorityClass.create=false")
    told = ("get", "deployment", ACCOUNT, "-o")
    path = "jsonpath={.spec.template.spec.containers[0].env[?(@.name=='SUNK_NAMESPACES')].value}"
    assert kubectl(*told, path) == own
    writes = {Ask(verb, what, namespace=own) for what in ("pods", SLICES, REVISIONS) for verb in ("create", "delete")}
    # Pods of others take room on a Node too, and Events about Nodes live in `default`.
    everywhere = {
        Ask("list", "pods"),
        Ask("patch", "nodes"),
        Ask("create", "events.events.k8s.io", namespace="default"),
    }
    eventually(lambda: allowed(kubectl, writes | everywhere) == writes | everywhere)
    elsewhere = {replace(ask, namespace="kube-system") for ask in writes} | {Ask("list", SETS), Ask("list", SLICES)}
    elsewhere |= {Ask(verb, "secrets", namespace="kube-system") for verb in VERBS}
    elsewhere |= {Ask(verb, "secrets", namespace=own) for verb in VERBS if verb != "create"}
    assert allowed(kubectl, elsewhere) == set()


def test_a_deletion_that_would_take_jobs_along_is_refused(helm: Helm, release: str) -> None:
    """The garbage collector takes the Pods of an object that is deleted in the foreground, and asks no finalizer."""
    helm.install(release)
    kubectl = helm.kubectl
    crds.until_served(kubectl)
    cluster = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "SlurmCluster", "metadata": {"name": "some"}, "spec": {}}
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump(cluster))
    attempt = ("delete", CLUSTERS, "some", "--cascade=foreground", "--wait=false")

    def refusal() -> str:
        where = ("--kubeconfig", str(kubectl.kubeconfig), "--namespace", kubectl.namespace)
        # As a dry run: a policy takes a moment to be in force, and until then this would succeed.
        command = [str(kubectl.program), *where, *attempt, "--dry-run=server"]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stderr

    eventually(lambda: "--cascade=background" in refusal())
    kubectl("delete", CLUSTERS, "some")


def columns(kubectl: Kubectl) -> list[str]:
    path = "jsonpath={.spec.versions[0].additionalPrinterColumns[*].name}"
    return kubectl("get", "crd", DEFINITIONS[0], "-o", path).split()


def test_an_upgrade_updates_the_definitions_and_an_uninstall_keeps_them(
    helm: Helm, release: str, tmp_path: Path
) -> None:
    older = tmp_path / "sunk"
    shutil.copytree(CHART, older)
    file = older / "templates" / "crds" / "nodesets.yaml"
    file.write_text(file.read_text().replace("name: Desired", "name: Wanted"))
    helm.install(release, chart=older)
    assert "Wanted" in columns(helm.kubectl)

    helm.install(release)
    assert "Wanted" not in columns(helm.kubectl)
    assert "Desired" in columns(helm.kubectl)

    helm("uninstall", release)
    for name in DEFINITIONS:
        assert helm.kubectl("get", "crd", name, "-o", "name").strip().endswith(name)
    assert helm.kubectl("get", "deployments,serviceaccounts", "-o", "name").split() == ["serviceaccount/default"]


def test_a_second_operator_leaves_the_definitions_to_the_first(helm: Helm, release: str) -> None:
    helm.install(release)
    other = replace(helm, kubectl=replace(helm.kubectl, namespace="kube-node-lease"))
    name = f"{release}-other"
    off = ("crds.install=false", "priorityClass.create=false", "namespaces={kube-node-lease}")
    try:
        other("install", name, str(CHART), *(word for value in off for word in ("--set", value)))
    finally:
        other("uninstall", name, "--ignore-not-found")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, "localhost/sunk:24.11"),
        ({"image.digest": f"sha256:{'0a' * 32}"}, f"localhost/sunk@sha256:{'0a' * 32}"),
        ({"image.repository": "mine@sha256:00"}, "mine@sha256:00"),
    ],
)
def test_the_operator_runs_from_an_image_by_tag_or_digest(helm: Helm, values: dict[str, str], expected: str) -> None:
    words = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    made = yaml.safe_load_all(helm("template", "sunk", str(CHART), *words))
    (deployment,) = [one for one in made if one and one["kind"] == "Deployment"]
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == expected


def test_definitions_of_another_release_are_met_with_what_to_do(helm: Helm, release: str) -> None:
    helm.install(release)
    own, other = helm.kubectl.namespace, f"{release}-other"
    quiet = ("--set", "priorityClass.create=false")
    refused = helm.attempt("install", other, str(CHART), *quiet)
    assert refused.returncode != 0
    for words in (f"belongs to the release {release} in namespace {own}", "crds.install=false", "crds.takeOver=true"):
        assert words in refused.stderr
    helm("uninstall", release)
    assert "crds.takeOver=true" in helm.attempt("install", other, str(CHART), *quiet).stderr, "they were left behind"
    try:
        helm("install", other, str(CHART), *quiet, "--take-ownership", "--set", "crds.takeOver=true")
        helm("upgrade", other, str(CHART), *quiet)
    finally:
        helm("uninstall", other, "--ignore-not-found")


def test_sunk_local_install_takes_definitions_over_from_a_release_that_is_gone_and_from_no_other(
    helm: Helm, release: str
) -> None:
    tools = Tools(folder=helm.program.parent, kubeconfig=helm.kubectl.kubeconfig)
    quiet = ("--set", "priorityClass.create=false", "--force-conflicts")
    helm.install(release, *quiet)
    with pytest.raises(Refusal, match=f"helm uninstall {release} --namespace {helm.kubectl.namespace}"):
        install.taking_over(tools)
    helm("uninstall", release)
    own = replace(helm, kubectl=replace(helm.kubectl, namespace=install.OPERATOR))
    begin = ("upgrade", "--install", install.OPERATOR, str(CHART), "--create-namespace", *quiet)
    try:
        own(*begin, *install.taking_over(tools))
        assert install.taking_over(tools) == (), "they are its own"
        own(*begin)
    finally:
        own("uninstall", install.OPERATOR, "--ignore-not-found")
        helm.kubectl("delete", "namespace", install.OPERATOR, "--ignore-not-found", "--wait=false")


def test_sunk_local_install_takes_definitions_over_that_were_put_there_by_hand(helm: Helm, release: str) -> None:
    helm.install(release, "--set", "priorityClass.create=false")
    helm("uninstall", release)
    owner = ("meta.helm.sh/release-name-", "meta.helm.sh/release-namespace-")
    helm.kubectl("annotate", "crd", *DEFINITIONS, *owner)
    words = install.taking_over(Tools(folder=helm.program.parent, kubeconfig=helm.kubectl.kubeconfig))
    assert "belongs to no release of Helm" in helm.attempt("install", release, str(CHART)).stderr
    helm("install", release, str(CHART), "--set", "priorityClass.create=false", *words)
