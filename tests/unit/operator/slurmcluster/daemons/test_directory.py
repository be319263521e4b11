"""The directory agent's Pod and account, and the ConfigMaps that it writes."""

from typing import Any

import pytest
import yaml
from tests.helm import CHART
from tests.unit.operator.slurmcluster.clusters import built, cluster, container, kinds, pod

from sunk.model import names
from sunk.operator.slurmcluster.daemons.directory import rules
from sunk.operator.slurmcluster.resolve import ResolvedCluster
from sunk.operator.slurmcluster.rollout.apply import PRUNED
from sunk.operator.slurmcluster.rollout.people import SELECTOR

AGENT = ("Deployment", "slurm-directory")
FIRST: dict[str, Any] = {"name": "main", "ldapUri": "ldaps://a"}


def with_directories(*each: dict[str, Any], **service: Any) -> ResolvedCluster:
    return cluster({"directoryService": {"directories": each or (FIRST,)} | service})


def test_a_cluster_without_directories_has_no_agent() -> None:
    made = {("ConfigMap", "slurm-directory"), ("Role", "slurm-directory"), ("NetworkPolicy", "slurm-directory"), AGENT}
    made |= {(kind, "slurm-directory") for kind in ("ServiceAccount", "RoleBinding")}
    made |= {("ConfigMap", f"slurm-directory-logins-{number}") for number in range(4)}
    assert set(kinds(with_directories())) - set(kinds(cluster())) == made
    assert not made & set(kinds(with_directories(FIRST | {"enabled": False})))
    assert {kind for kind, _ in made} <= set(PRUNED), "they go when nobody wants them any more"


def test_what_the_agent_writes_is_not_the_operators_to_apply() -> None:
    for name in ("slurm-directory", *(f"slurm-directory-logins-{number}" for number in range(4))):
        assert set(built(with_directories(), "ConfigMap", name)) == {"apiVersion", "kind", "metadata"}


def test_of_the_config_maps_the_operator_follows_only_the_one_with_the_report() -> None:
    wanted = dict(one.split("=") for one in SELECTOR.split(","))
    found = with_directories()
    followed = [
        name
        for kind, name in kinds(found)
        if kind == "ConfigMap" and wanted.items() <= built(found, kind, name)["metadata"]["labels"].items()
    ]
    assert followed == ["slurm-directory"]


def test_it_may_write_to_these_config_maps_and_read_one_more() -> None:
    ours = ["slurm-directory", *(f"slurm-directory-logins-{number}" for number in range(4))]
    assert rules(with_directories()) == [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "patch"], "resourceNames": ours},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["slurm-users"]},
    ]
    theirs = cluster({"users": {"configMap": "people"}, "directoryService": {"directories": [FIRST]}})
    assert rules(theirs)[1]["resourceNames"] == ["people"]


def test_the_operator_holds_what_it_grants() -> None:
    """Kubernetes refuses a Role with more rights than its author has."""
    text = (CHART / "templates" / "_names.tpl").read_text()
    lines = text.split('define "sunk.rules"')[1].split("{{ include")[0].splitlines()[1:]
    held = {
        verb
        for rule in yaml.safe_load("\n".join(lines))
        if rule["apiGroups"] == [""] and "configmaps" in rule["resources"]
        for verb in rule["verbs"]
    }
    assert {verb for rule in rules(with_directories()) for verb in rule["verbs"]} <= held


def test_it_has_no_rights_on_its_machine() -> None:
    spec = pod(with_directories(), *AGENT)
    (first,) = spec["containers"]
    assert spec["securityContext"]["runAsUser"] == 65532
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert first["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert spec["automountServiceAccountToken"] is False
    assert spec["serviceAccountName"] == "slurm-directory"
    assert {"key": names.LOCK, "operator": "Exists"} in spec["tolerations"]


def test_it_runs_the_image_of_our_own_components_unless_told_otherwise() -> None:
    first = container(with_directories(), *AGENT)
    assert first["image"] == "localhost/sunk:24.11"
    assert first["args"] == ["directory", "--cluster=slurm", "--namespace=team", "--port=8080"]
    assert container(with_directories(image={"tag": "mine"}), *AGENT)["image"] == "localhost/sunk:mine"


def secrets(made: ResolvedCluster) -> dict[str, Any]:
    """The Secrets of the agent's Pod, by where they are."""
    spec = pod(made, *AGENT)
    volumes = {one["name"]: one["secret"] for one in spec["volumes"] if "secret" in one}
    mounts = spec["containers"][0]["volumeMounts"]
    return {one["mountPath"]: volumes[one["name"]] for one in mounts if one["name"] in volumes}


def test_secrets_of_directories_are_where_the_agent_looks_and_may_be_missing() -> None:
    user = {"existingSecret": "snippet", "passwordSecret": "slurm-directory-1"}
    made = with_directories({"name": "off", "enabled": False}, FIRST | {"user": user, "ldapsCert": "tls"})
    found = secrets(made)
    assert {place: one["secretName"] for place, one in found.items()} == {
        "/etc/sunk/directories/main/snippets": "snippet",
        "/etc/sunk/directories/main/password": "slurm-directory-1",
        "/etc/sunk/directories/main/tls": "tls",
    }
    assert all(one["optional"] is True and one["defaultMode"] == 0o440 for one in found.values())
    assert found["/etc/sunk/directories/main/password"]["items"] == [{"key": "password", "path": "password"}]
    assert secrets(with_directories()) == {}


@pytest.mark.parametrize("name", ["Corp.Example_1", "a" * 63])
def test_names_of_volumes_are_labels_whatever_the_directory_is_called(name: str) -> None:
    made = with_directories(FIRST | {"name": name, "ldapsCert": "tls"})
    names_of = [one["name"] for one in pod(made, *AGENT)["volumes"]]
    assert all(len(one) <= 63 and one == one.lower() and "_" not in one and "." not in one for one in names_of)
    assert secrets(made).keys() == {f"/etc/sunk/directories/{name}/tls"}


def test_other_settings_start_no_other_pod_and_other_secrets_do() -> None:
    def template(**more: Any) -> Any:
        return built(with_directories(FIRST | more), *AGENT)["spec"]["template"]

    assert template() == template(schema="AD", additionalConfig="min_id = 1000", ldapUri="ldap://b")
    assert template() != template(ldapsCert="tls")


def test_two_at_once_would_write_in_turns() -> None:
    assert built(with_directories(), *AGENT)["spec"]["strategy"] == {"type": "Recreate"}
