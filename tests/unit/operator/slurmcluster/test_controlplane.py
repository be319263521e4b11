"""The control plane: what it is made of, and what must hold of every part of it."""

from typing import Any

import msgspec
import pytest
from tests.unit.operator.slurmcluster.clusters import built, cluster, container, kinds, pod, with_nodes

from sunk.model.names import GROUP, LOCK
from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.builders import pods, secrets
from sunk.operator.slurmcluster.builders.metadata import CONFIG_HASH
from sunk.operator.slurmcluster.objects import objects
from sunk.operator.slurmcluster.resolve import ResolvedCluster

DIGEST = f"sha256:{'0a' * 32}"
EVERYTHING = {"rest": {"enabled": True}, "compute": {"nodes": {"cpu": {"enabled": True}}}}
WORKLOADS = (
    ("Deployment", "slurm-controller"),
    ("StatefulSet", "slurm-login"),
    ("Deployment", "slurm-accounting"),
    ("StatefulSet", "slurm-mysql"),
    ("Deployment", "slurm-rest"),
    ("Deployment", "slurm-syncer"),
)


def test_a_plain_cluster_has_the_parts_that_people_know() -> None:
    assert set(kinds(cluster())) == {
        ("ConfigMap", "slurm-slurm-conf"),
        ("ConfigMap", "slurm-users"),
        ("ConfigMap", "slurm-directory-settings"),
        ("Service", "slurm-mysql"),
        ("StatefulSet", "slurm-mysql"),
        ("ConfigMap", "slurm-slurmdbd-conf"),
        ("Service", "slurm-accounting"),
        ("Deployment", "slurm-accounting"),
        ("PersistentVolumeClaim", "slurm-controller-state"),
        ("Service", "slurm-controller"),
        ("Deployment", "slurm-controller"),
        ("Service", "slurm-login"),
        ("StatefulSet", "slurm-login"),
        ("ServiceAccount", "slurm-sunk-syncer"),
        ("Role", "slurm-syncer"),
        ("RoleBinding", "slurm-syncer"),
        ("ConfigMap", "slurm-user-accounts"),
        ("Service", "slurm-syncer"),
        ("Deployment", "slurm-syncer"),
        ("PodDisruptionBudget", "slurm-compute"),
        ("Service", "slurm-compute"),
        ("ConfigMap", "slurm-compute-scripts"),
        ("ConfigMap", "slurm-compute-s6"),
        ("NetworkPolicy", "slurm-accounting"),
        ("NetworkPolicy", "slurm-compute"),
        ("NetworkPolicy", "slurm-configuration"),
        ("NetworkPolicy", "slurm-controller"),
        ("NetworkPolicy", "slurm-login"),
        ("NetworkPolicy", "slurm-mysql"),
        ("NetworkPolicy", "slurm-syncer"),
    }


@pytest.mark.parametrize(
    ("values", "gone"),
    [
        ({"login": {"enabled": False}}, ["slurm-login"]),
        ({"syncer": {"enabled": False}}, ["slurm-syncer", "slurm-sunk-syncer"]),
        ({"accounting": {"enabled": False}}, ["slurm-accounting", "slurm-mysql", "slurm-slurmdbd-conf"]),
        ({"accounting": {"remoteHost": "x"}}, ["slurm-accounting", "slurm-mysql", "slurm-slurmdbd-conf"]),
        ({"accounting": {"external": {"host": "x", "existingSecret": "y"}}}, ["slurm-mysql"]),
        ({"controller": {"state": {"existingClaim": "old"}}}, ["slurm-controller-state"]),
    ],
)
def test_what_somebody_else_has_is_not_made(values: dict[str, Any], gone: list[str]) -> None:
    names = {name for _, name in kinds(cluster())}
    assert names - {name for _, name in kinds(cluster(values))} == set(gone)


def test_every_object_says_whose_it_is() -> None:
    for one in objects(cluster(EVERYTHING)):
        meta = one["metadata"]
        assert meta["namespace"] == "team"
        wanted = {
            f"{GROUP}/cluster": "slurm",
            "app.kubernetes.io/part-of": "slurm",
            "app.kubernetes.io/instance": "slurm",
            "app.kubernetes.io/managed-by": "sunk",
        }
        assert wanted.items() <= meta["labels"].items()
        assert {"app.kubernetes.io/name", "app.kubernetes.io/component"} <= meta["labels"].keys()


def test_claims_outlive_the_cluster_and_nothing_else_does() -> None:
    free = [one["kind"] for one in objects(cluster(EVERYTHING)) if "ownerReferences" not in one["metadata"]]
    assert free == ["PersistentVolumeClaim"]
    owner = built(cluster(), "Deployment", "slurm-controller")["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == ("SlurmCluster", "slurm", "1234", True)
    assert not any("ownerReferences" in one["metadata"] for one in objects(cluster(uid="")))


@pytest.mark.parametrize(("kind", "name"), WORKLOADS)
def test_services_select_the_pods_of_their_part_and_of_no_other(kind: str, name: str) -> None:
    made = cluster(EVERYTHING)
    selector = built(made, "Service", name)["spec"]["selector"]
    templates = {(k, n): built(made, k, n)["spec"]["template"]["metadata"]["labels"] for k, n in WORKLOADS}
    matched = [which for which, labels in templates.items() if selector.items() <= labels.items()]
    assert matched == [(kind, name)]
    assert built(made, kind, name)["spec"]["selector"]["matchLabels"] == selector


@pytest.mark.parametrize(("kind", "name"), WORKLOADS)
def test_every_pod_of_the_control_plane_is_careful(kind: str, name: str) -> None:
    spec = pod(cluster(EVERYTHING), kind, name)
    assert spec["enableServiceLinks"] is False
    assert spec["automountServiceAccountToken"] is False
    assert {"key": LOCK, "operator": "Exists"} in spec["tolerations"]
    first = spec["containers"][0]
    assert "readinessProbe" in first
    assert first["resources"]["requests"]
    if name == "slurm-login":  # sshd makes other people of itself, and nobody's session ends for a probe
        assert "livenessProbe" not in first
        assert first["startupProbe"]["failureThreshold"] == pods.NEVER
    else:
        assert "startupProbe" in first
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert first["securityContext"]["allowPrivilegeEscalation"] is False
    all_of_them = (*spec.get("initContainers", ()), *spec["containers"])
    mounted = {mount["name"] for one in all_of_them for mount in one.get("volumeMounts", ())}
    claims = built(cluster(EVERYTHING), kind, name)["spec"].get("volumeClaimTemplates", ())
    there = {volume["name"] for volume in spec["volumes"]} | {one["metadata"]["name"] for one in claims}
    assert mounted == there


def test_container_names_and_labels_are_those_of_the_seeds() -> None:
    made = cluster(EVERYTHING)
    named = {name: container(made, kind, name)["name"] for kind, name in WORKLOADS}
    assert named["slurm-controller"] == "slurmctld"
    assert named["slurm-login"] == "sshd"
    assert named["slurm-accounting"] == "slurmdbd"
    labels = built(made, "Deployment", "slurm-controller")["spec"]["template"]["metadata"]["labels"]
    assert labels["app.kubernetes.io/name"] == "slurmctld"
    assert labels["app.kubernetes.io/component"] == "controller"


def test_one_slurmctld_at_a_time_and_its_state_on_a_claim() -> None:
    made = cluster()
    assert built(made, "Deployment", "slurm-controller")["spec"]["strategy"] == {"type": "Recreate"}
    volumes = {volume["name"]: volume for volume in pod(made, "Deployment", "slurm-controller")["volumes"]}
    assert volumes["state"]["persistentVolumeClaim"]["claimName"] == "slurm-controller-state"
    assert built(cluster({"controller": {"replicas": 0}}), "Deployment", "slurm-controller")["spec"]["replicas"] == 0
    with pytest.raises(Refusal, match=r"^controller\.replicas is 2: .*fight over the state"):
        cluster({"controller": {"replicas": 2}})


def annotation(made: ResolvedCluster, name: str) -> str:
    said: str = built(made, "Deployment", name)["spec"]["template"]["metadata"]["annotations"][CONFIG_HASH]
    return said


def test_a_change_restarts_a_daemon_only_where_it_has_to() -> None:
    before, after = cluster(), cluster({"slurmConfig": {"killWait": 60}})
    assert annotation(before, "slurm-controller") == annotation(after, "slurm-controller")
    assert annotation(before, "slurm-accounting") == annotation(after, "slurm-accounting")
    hashes = [built(made, "ConfigMap", "slurm-slurm-conf")["metadata"]["annotations"] for made in (before, after)]
    assert hashes[0] != hashes[1]
    purged = cluster({"accounting": {"extraConfig": "PurgeJobAfter=1month"}})
    assert annotation(purged, "slurm-accounting") != annotation(before, "slurm-accounting")
    assert annotation(purged, "slurm-controller") == annotation(before, "slurm-controller")


def test_init_is_done_before_kubernetes_kills() -> None:
    for kind, name in WORKLOADS[:3]:
        spec = pod(cluster(EVERYTHING), kind, name)
        said = {one["name"]: one["value"] for one in spec["containers"][0]["env"]}
        assert 0 < int(said["SUNK_STOP_SECONDS"]) < spec["terminationGracePeriodSeconds"]


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({}, "localhost/slurm:24.11"),
        ({"tag": "2"}, "localhost/slurm:2"),
        ({"repository": "mine"}, "mine:24.11"),
        ({"name": "mine", "tag": "2"}, "mine:2"),
        ({"repository": "mine@sha256:00"}, "mine@sha256:00"),
        ({"digest": DIGEST}, f"localhost/slurm@{DIGEST}"),
        ({"repository": "mine", "tag": "2", "digest": DIGEST}, f"mine@{DIGEST}"),
    ],
)
def test_an_image_is_put_together_of_what_is_said(image: dict[str, str], expected: str) -> None:
    assert container(cluster({"login": {"image": image}}), "StatefulSet", "slurm-login")["image"] == expected


def test_a_digest_holds_for_one_repository_and_until_somebody_says_another_tag() -> None:
    def image(whole: dict[str, str], part: dict[str, str]) -> str:
        made = cluster({"image": whole, "login": {"image": part}})
        return str(container(made, "StatefulSet", "slurm-login")["image"])

    pinned = {"repository": "ours", "tag": "1", "digest": DIGEST}
    assert image(pinned, {}) == f"ours@{DIGEST}"
    assert image(pinned, {"tag": "2"}) == "ours:2"
    assert image(pinned, {"repository": "theirs"}) == "theirs:1"
    with pytest.raises(msgspec.ValidationError, match=r"image\.digest"):
        cluster({"image": {"digest": "sha256:abc"}})


def test_pull_secrets_region_and_class_reach_the_pods() -> None:
    values = {
        "imagePullSecrets": [{"name": "mine"}],
        "nodeSelector": {"region": "LAS1", "labels": {"pool": "x"}},
        "controller": {"priorityClassName": "high"},
    }
    spec = pod(cluster(values), "Deployment", "slurm-controller")
    assert spec["imagePullSecrets"] == [{"name": "mine"}]
    assert spec["nodeSelector"] == {"topology.kubernetes.io/region": "LAS1", "pool": "x"}
    assert spec["priorityClassName"] == "high"
    assert "nodeSelector" not in pod(cluster(), "Deployment", "slurm-controller")


def test_the_login_service_is_as_asked_for() -> None:
    usual = built(cluster(), "Service", "slurm-login")
    assert usual["spec"]["type"] == "LoadBalancer"
    assert usual["spec"]["externalTrafficPolicy"] == "Local"
    assert [port["port"] for port in usual["spec"]["ports"]] == [22]
    inside = built(cluster({"login": {"service": {"type": "ClusterIP"}}}), "Service", "slurm-login")
    assert "externalTrafficPolicy" not in inside["spec"]


def test_an_edit_of_peoples_own_files_does_not_reach_slurmctld_untried() -> None:
    made = cluster({"slurmConfig": {"slurmCtld": {"etcConfigMap": "theirs"}}})
    (etc,) = [one for one in pod(made, "Deployment", "slurm-controller")["volumes"] if one["name"] == "etc"]
    assert etc["configMap"] == {"name": "slurm-slurm-conf"}


def test_slurmctld_waits_for_slurmdbd_where_limits_are_enforced() -> None:
    def before(values: dict[str, Any]) -> list[str]:
        return [one["name"] for one in pod(cluster(values), "Deployment", "slurm-controller")["initContainers"]]

    assert before({}) == ["keys", "await-accounting"]
    for off in ({"enabled": False}, {"enforce": ""}):
        assert before({"accounting": off}) == ["keys"]


def test_secrets_are_named_for_whoever_makes_them() -> None:
    assert {one.name: dict(one.keys) for one in secrets.needed(cluster(EVERYTHING))} == {
        "slurm-auth-slurm": {"slurm.key": "auth"},
        "slurm-jwt": {"jwt_hs256.key": "jwt"},
        "slurm-mysql": {"password": "password"},
        "slurm-ssh-host-keys": {"ssh_host_ed25519_key": "ssh-ed25519", "ssh_host_rsa_key": "ssh-rsa"},
    }
    plain = cluster({"accounting": {"enabled": False}, "login": {"enabled": False}})
    assert [one.name for one in secrets.needed(plain)] == ["slurm-auth-slurm"]
    external = cluster(
        {"accounting": {"external": {"host": "db", "existingSecret": "theirs"}}, "login": {"enabled": False}}
    )
    assert [(one.name, one.made) for one in secrets.needed(external)] == [("slurm-auth-slurm", True), ("theirs", False)]


def test_nodes_have_host_keys_where_people_log_in_to_them() -> None:
    found = [one.name for one in secrets.needed(cluster({"compute": {"ssh": {"enabled": True}}}))]
    assert found[-2:] == ["slurm-ssh-host-keys", "slurm-ssh-node-keys"]


def test_an_external_database_needs_a_password_and_excludes_a_remote_slurmdbd() -> None:
    with pytest.raises(Refusal, match=r"^accounting\.external\.existingSecret is empty"):
        objects(cluster({"accounting": {"external": {"host": "db"}}}))
    with pytest.raises(Refusal, match="set only one of them"):
        objects(cluster({"accounting": {"external": {"host": "db"}, "remoteHost": "x"}}))


def test_claims_of_people_are_in_login_and_compute_pods() -> None:
    mounts = [{"name": "/home", "pvc": "h"}, {"name": "/data", "pvc": "h", "subPath": "d"}]
    made = with_nodes({"mounts": mounts}, cpu={})
    for kind, name in (("StatefulSet", "slurm-login"), ("NodeSet", "slurm-cpu")):
        spec = pod(made, kind, name)
        (volume,) = [one for one in spec["volumes"] if "persistentVolumeClaim" in one]
        places = [one["mountPath"] for one in spec["containers"][0]["volumeMounts"] if one["name"] == volume["name"]]
        assert places == ["/home", "/data"]


@pytest.mark.parametrize(
    ("values", "books"),
    [
        ({}, "slurm-mysql"),
        ({"accounting": {"external": {"host": "db", "existingSecret": "s"}}}, "db:3306/slurm_acct_db"),
        ({"accounting": {"remoteHost": "dbd.example.com"}}, "dbd.example.com:6819"),
    ],
)
def test_slurmctld_knows_who_keeps_its_books(values: dict[str, Any], books: str) -> None:
    variables = {
        each["name"]: each["value"] for each in container(cluster(values), "Deployment", "slurm-controller")["env"]
    }
    assert variables["SUNK_ACCOUNTING"] == books


def test_slurmctld_finds_the_hosts_of_people_and_nodes_by_their_names() -> None:
    made = with_nodes(cpu={})
    variables = {one["name"]: one.get("value") for one in container(made, "Deployment", "slurm-controller")["env"]}
    login, node = pod(made, "StatefulSet", "slurm-login"), pod(made, "NodeSet", "slurm-cpu")
    assert variables["LOGIN"] == built(made, "StatefulSet", "slurm-login")["spec"]["serviceName"]
    assert variables["COMPUTE"] == node["subdomain"]
    assert built(made, "Service", node["subdomain"])["spec"]["clusterIP"] == "None"
    assert "subdomain" not in login, "it is the StatefulSet's to give"
