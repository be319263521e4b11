"""Users of a cluster, and what slurmd may do for them."""

from typing import Any

import pytest
from tests.unit.operator.slurmcluster.clusters import built, cluster, container, kinds, pod, with_nodes

from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.objects import objects
from sunk.operator.slurmcluster.rollout.references import references

PARTS = {
    "slurm-controller": "Deployment",
    "slurm-accounting": "Deployment",
    "slurm-rest": "Deployment",
    "slurm-login": "StatefulSet",
    "slurm-cpu": "NodeSet",
}


def everything(**values: Any) -> dict[str, Any]:
    return {"rest": {"enabled": True}, "compute": {"nodes": {"cpu": {"enabled": True}}}} | values


@pytest.mark.parametrize("name", PARTS)
def test_every_part_knows_the_users(name: str) -> None:
    made = cluster(everything())
    volumes = {one["name"]: one for one in pod(made, PARTS[name], name)["volumes"]}
    sources = [one["configMap"] for one in volumes["users"]["projected"]["sources"]]
    assert [one["name"] for one in sources] == ["slurm-users", "slurm-directory", "slurm-directory-settings"]
    places = {one["mountPath"] for one in container(made, PARTS[name], name)["volumeMounts"]}
    assert "/etc/sunk/users" in places


def test_the_files_are_those_of_the_values_without_passwords() -> None:
    users = {
        "passwd": "alice:x:2001:2001:Alice:/home/alice:/bin/bash\n\n",
        "group": "alice:x:2001:\nscience:!:3000:alice\n",
        "authorizedKeys": {"alice": "ssh-ed25519 AAAA alice\n"},
    }
    assert built(cluster({"users": users}), "ConfigMap", "slurm-users")["data"] == {
        "passwd": "alice:*:2001:2001:Alice:/home/alice:/bin/bash\n",
        "group": "alice:*:2001:\nscience:*:3000:alice\n",
        "authorized_keys.alice": "ssh-ed25519 AAAA alice\n",
    }


def test_a_list_of_somebody_else_is_taken_as_it_is_and_has_to_be_there() -> None:
    made = cluster(everything(users={"configMap": "people"}))
    assert ("ConfigMap", "slurm-users") not in kinds(made)
    volumes = {one["name"]: one for one in pod(made, "Deployment", "slurm-controller")["volumes"]}
    assert volumes["users"]["projected"]["sources"][0] == {"configMap": {"name": "people"}}
    assert ("users.configMap", "people") in {(one.at, one.name) for one in references(made)}


def test_what_the_agent_has_found_replaces_the_files_of_the_values_and_nothing_else() -> None:
    (volume,) = [one for one in pod(cluster(), "Deployment", "slurm-controller")["volumes"] if one["name"] == "users"]
    values, found, settings = (one["configMap"] for one in volume["projected"]["sources"])
    # Kubernetes refuses two sources that name the same path; of the first, all files are taken without naming them.
    assert "items" not in values
    assert [one["path"] for one in found["items"]] == ["passwd", "group", "shadow"]
    assert found["optional"] is True
    assert [one["path"] for one in settings["items"]] == ["sudoers", "options"]


def test_no_pod_changes_with_the_first_directory() -> None:
    first = {"directories": [{"ldapUri": "ldaps://a", "user": {"existingSecret": "x"}}], "sudoGroups": ["admins"]}
    before, after = cluster(everything()), cluster(everything(directoryService=first))
    for name, kind in PARTS.items():
        assert built(before, kind, name)["spec"]["template"] == built(after, kind, name)["spec"]["template"]


def test_scripts_of_the_image_are_told_of_homes_and_nodes() -> None:
    def options(**values: Any) -> str:
        return str(built(cluster(values), "ConfigMap", "slurm-directory-settings")["data"]["options"])

    assert options() == "create_homes=yes\ncompute_service=slurm-compute.team.svc.cluster.local\n"
    off = options(login={"createHomes": False}, clusterDomain="k8s.example")
    assert off == "create_homes=no\ncompute_service=slurm-compute.team.svc.k8s.example\n"


@pytest.mark.parametrize(
    ("users", "complaint"),
    [
        ({"passwd": "alice:*:2001:2001"}, "4 fields separated by colons instead of 7"),
        ({"passwd": "toor:*:0:0::/root:/bin/sh"}, "numbers of toor are 0 and 0. Use 500 or more"),
        ({"passwd": "eve:*:64030:64030::/home/eve:/bin/sh"}, "numbers of eve are 64030 and 64030"),
        ({"passwd": "a:*:2001:0::/a:/bin/sh"}, "2001 and 0"),
        ({"passwd": "a:$6$abc:2001:2001::/a:/bin/sh"}, "a ConfigMap is not secret"),
        ({"passwd": "A b:*:2001:2001::/a:/bin/sh"}, "is not a valid name"),
        ({"group": "a:*:2001:\na:*:2002:"}, "users.group: a appears twice"),
        ({"passwd": "slurm:*:2001:2001::/a:/bin/sh"}, "users.passwd: slurm is a user of the images. Use another name"),
        ({"group": "sudo:*:2001:alice"}, "users.group: sudo is a group of the images. Use another name"),
        ({"authorizedKeys": {"../x": "k"}}, "users.authorizedKeys"),
        ({"authorizedKeys": {"root": "k"}}, "users.authorizedKeys: root is a user of the images"),
    ],
)
def test_a_line_that_nobody_could_use_is_refused(users: dict[str, Any], complaint: str) -> None:
    with pytest.raises(Refusal, match=r"^users") as refused:
        objects(cluster({"users": users}))
    assert complaint in str(refused.value)


def test_nodes_and_logins_are_found_by_their_short_names() -> None:
    made = cluster(everything(clusterDomain="k8s.example"))
    wanted = ["slurm-compute.team.svc.k8s.example", "slurm-login.team.svc.k8s.example"]
    for name in ("slurm-cpu", "slurm-login"):
        assert pod(made, PARTS[name], name)["dnsConfig"] == {"searches": wanted}


def capabilities(values: dict[str, Any] | None = None, **compute: Any) -> list[str]:
    nodes = {"nodes": {"cpu": {"enabled": True}}}
    made = cluster((values or {}) | {"compute": nodes | compute})
    security = container(made, "NodeSet", "slurm-cpu").get("securityContext", {})
    added: list[str] = security.get("capabilities", {}).get("add", [])
    return added


def test_slurmd_may_do_what_the_values_need_and_no_more() -> None:
    assert capabilities() == ["SYS_PTRACE"]
    assert capabilities({"accounting": {"enabled": False}}) == []
    affinity = {"slurmCtld": {"taskPlugin": "task/affinity"}}
    assert capabilities({"slurmConfig": affinity}) == ["SYS_PTRACE", "SYS_NICE"]
    assert capabilities({"slurmConfig": {"extraConfig": "taskplugin=task/affinity"}}) == ["SYS_PTRACE", "SYS_NICE"]
    assert capabilities(pyxis={"enabled": True}) == ["SYS_PTRACE", "SYS_ADMIN"]


def test_capabilities_of_people_stay() -> None:
    theirs = {"capabilities": {"add": ["SYS_NICE", "SYS_ADMIN"], "drop": ["NET_RAW"]}, "runAsUser": 0}
    assert capabilities(securityContext=theirs) == ["SYS_NICE", "SYS_ADMIN", "SYS_PTRACE"]
    made = container(with_nodes({"securityContext": theirs}, cpu={}), "NodeSet", "slurm-cpu")["securityContext"]
    assert made["capabilities"]["drop"] == ["NET_RAW"]
    assert made["runAsUser"] == 0
    assert capabilities(securityContext={"privileged": True}) == []
    assert capabilities(securityContext={"capabilities": {"add": ["ALL"]}}) == ["ALL"]


def test_a_capability_that_is_needed_cannot_be_dropped() -> None:
    dropped = {"capabilities": {"drop": ["SYS_NICE"]}}
    assert capabilities(securityContext=dropped) == ["SYS_PTRACE"]
    with pytest.raises(Refusal, match=r"^compute\.nodes\.cpu: securityContext drops SYS_NICE, but .* task/affinity"):
        capabilities({"slurmConfig": {"slurmCtld": {"taskPlugin": "task/affinity"}}}, securityContext=dropped)


def test_local_disks_are_offered_if_they_are_named() -> None:
    def line(made: Any) -> str:
        said: str = container(made, "NodeSet", "slurm-cpu")["args"][-1]
        return said

    assert "TmpDisk" not in line(with_nodes(cpu={}))
    assert "TmpDisk=5000" in line(with_nodes({"tmpDisk": 5000}, cpu={}))
