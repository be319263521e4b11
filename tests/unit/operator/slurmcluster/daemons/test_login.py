"""Login Pods, and how people reach them."""

from typing import Any

import pytest
from tests.unit.operator.slurmcluster.clusters import built, cluster, container, kinds, pod

from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.objects import objects

LOGIN = ("StatefulSet", "slurm-login")
DIRECTORY = {"name": "main", "ldapUri": "ldaps://a"}


def service(name: str = "slurm-login", **values: Any) -> Any:
    return built(cluster({"login": {"replicas": 2, "service": values}}), "Service", name)


def volumes(values: dict[str, Any] | None = None) -> dict[str, Any]:
    return {one["name"]: one for one in pod(cluster(values), *LOGIN)["volumes"]}


def mounts(values: dict[str, Any] | None = None) -> dict[str, str]:
    return {one["mountPath"]: one["name"] for one in container(cluster(values), *LOGIN)["volumeMounts"]}


def test_all_pods_have_the_same_host_keys_and_only_root_reads_them() -> None:
    assert volumes()["host-keys"]["secret"] == {"secretName": "slurm-ssh-host-keys", "defaultMode": 0o400}
    assert mounts()["/etc/ssh/host-keys"] == "host-keys"
    assert "fsGroup" not in pod(cluster(), *LOGIN)["securityContext"]


def test_of_the_keys_of_nodes_logins_have_the_public_ones() -> None:
    found = volumes()["node-keys"]["secret"]
    assert [one["key"] for one in found["items"]] == ["ssh_host_ed25519_key.pub", "ssh_host_rsa_key.pub"]
    assert (found["secretName"], found["optional"], found["defaultMode"]) == ("slurm-ssh-node-keys", True, 0o444)
    assert mounts()["/etc/ssh/node-keys"] == "node-keys"
    assert pod(cluster(), *LOGIN) == pod(cluster({"compute": {"ssh": {"enabled": True}}}), *LOGIN)


def test_logins_have_what_the_agent_says_of_keys_and_how_to_ask_for_passwords() -> None:
    sources = [one["configMap"] for one in volumes()["logins"]["projected"]["sources"]]
    assert [one["name"] for one in sources[:4]] == [f"slurm-directory-logins-{number}" for number in range(4)]
    assert all(one["optional"] for one in sources[:4])
    assert sources[4] == {"name": "slurm-directory-settings", "items": [{"key": "passwords", "path": "passwords"}]}
    assert mounts()["/etc/sunk/logins"] == "logins"


def test_certificates_for_passwords_are_there_and_passwords_of_the_agent_are_not() -> None:
    user = {"existingSecret": "snippet", "passwordSecret": "secret"}
    values = {"directoryService": {"directories": [DIRECTORY | {"ldapsCert": "tls", "user": user}]}}
    found = volumes(values)
    assert found["directory-0-tls"]["secret"] == {"secretName": "tls", "defaultMode": 0o400, "optional": True}
    assert mounts(values)["/etc/sunk/directories/main/tls"] == "directory-0-tls"
    named = [one["secret"]["secretName"] for one in found.values() if "secret" in one]
    assert not {"snippet", "secret"} & set(named)


@pytest.mark.parametrize(("wait", "grace", "stop"), [(0, 10, 8), (3600, 3610, 8)])
def test_a_pod_waits_for_people_within_its_grace_period(wait: int, grace: int, stop: int) -> None:
    made = cluster({"login": {"sessionWaitSeconds": wait}})
    first = container(made, *LOGIN)
    variables = {one["name"]: one["value"] for one in first["env"]}
    assert pod(made, *LOGIN)["terminationGracePeriodSeconds"] == grace
    assert int(variables["SUNK_STOP_SECONDS"]) == stop, "for what comes after the wait"
    assert ("lifecycle" in first) is bool(wait)
    assert variables.get("SUNK_SESSION_WAIT") == (str(wait) if wait else None)
    if wait:
        script = first["lifecycle"]["preStop"]["exec"]["command"][-1]
        assert "$SUNK_SESSION_WAIT" in script
        assert "'^sshd-session: '" in script


def test_one_service_leads_to_all_pods() -> None:
    found = service()
    assert found["spec"]["ports"] == [{"name": "ssh", "port": 22, "targetPort": 22}]
    assert "annotations" not in found["metadata"]
    assert not [name for kind, name in kinds(cluster()) if kind == "Service" and name.startswith("slurm-login-")]


@pytest.mark.parametrize(
    ("service", "seen"),
    [
        ({}, True),
        ({"type": "NodePort"}, True),
        ({"externalTrafficPolicy": "Cluster"}, False),
        ({"type": "NodePort", "externalTrafficPolicy": "Cluster"}, False),
        ({"type": "ClusterIP"}, False),
    ],
)
def test_logins_are_told_if_all_clients_have_the_address_of_a_proxy(service: dict[str, Any], *, seen: bool) -> None:
    variables = {one["name"] for one in container(cluster({"login": {"service": service}}), *LOGIN)["env"]}
    assert ("SUNK_SHARED_ADDRESSES" not in variables) is seen


def test_each_pod_has_a_service_if_somebody_wants_that() -> None:
    made = cluster({"login": {"replicas": 2, "service": {"perPod": True, "type": "NodePort"}}})
    names = [name for kind, name in kinds(made) if kind == "Service" and name.startswith("slurm-login")]
    assert names == ["slurm-login", "slurm-login-0-ssh", "slurm-login-1-ssh"]
    pods = {f"slurm-login-{number}" for number in range(2)}
    assert not pods & set(names), "by its own name a Pod is found on all ports, as srun and X11 need"
    spec = built(made, "Service", "slurm-login-1-ssh")["spec"]
    assert spec["selector"]["statefulset.kubernetes.io/pod-name"] == "slurm-login-1"
    assert spec["selector"]["app.kubernetes.io/component"] == "login"
    assert (spec["type"], spec["externalTrafficPolicy"]) == ("NodePort", "Local")
    assert "statefulset.kubernetes.io/pod-name" not in built(made, "Service", "slurm-login")["spec"]["selector"]


def test_host_names_are_for_external_dns() -> None:
    key = "external-dns.alpha.kubernetes.io/hostname"
    values: dict[str, Any] = {
        "dnsName": "login.example.com",
        "perPod": True,
        "exposePublicIP": True,
        "annotations": {"a": "b"},
    }
    assert service(**values)["metadata"]["annotations"] == {
        "service.beta.kubernetes.io/coreweave-load-balancer-type": "public",
        key: "login.example.com",
        "a": "b",
    }
    each = service("slurm-login-0-ssh", **values)["metadata"]["annotations"]
    assert each[key] == "slurm-login-0.login.example.com"
    mine = service(dnsName="x", annotations={key: "y"})["metadata"]["annotations"]
    assert mine == {key: "y"}, "what people write themselves counts"


def test_additional_ports_are_those_of_all_services() -> None:
    more = [{"name": "web", "port": 443, "targetPort": 8443}, {"name": "mosh", "port": 60000, "protocol": "UDP"}]
    for name in ("slurm-login", "slurm-login-0-ssh"):
        assert service(name, additionalPorts=more, perPod=True)["spec"]["ports"][1:] == [
            {"name": "web", "port": 443, "targetPort": 8443},
            {"name": "mosh", "port": 60000, "targetPort": 60000, "protocol": "UDP"},
        ]


@pytest.mark.parametrize(
    ("ports", "said"),
    [
        ([{"name": "ssh", "port": 2222}], "[0].name: ssh is the port of sshd"),
        ([{"name": "other", "port": 22}], "[0].port: ssh already uses port 22"),
        ([{"name": "a", "port": 80}, {"name": "b", "port": 80}], "[1].port: a already uses port 80"),
    ],
)
def test_a_port_that_is_taken_is_refused(ports: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(Refusal) as refused:
        objects(cluster({"login": {"service": {"additionalPorts": ports}}}))
    assert str(refused.value).startswith(f"login.service.additionalPorts{said}")


def test_one_port_may_have_two_protocols() -> None:
    both = [{"name": "a", "port": 80}, {"name": "b", "port": 80, "protocol": "UDP"}]
    assert len(service(additionalPorts=both)["spec"]["ports"]) == 3


def test_sshd_has_the_capabilities_that_not_every_runtime_gives() -> None:
    def security(**theirs: Any) -> Any:
        return container(cluster({"login": {"securityContext": theirs}}), *LOGIN)["securityContext"]

    assert security() == {"capabilities": {"add": ["SYS_CHROOT", "AUDIT_WRITE"]}}
    theirs = {"capabilities": {"add": ["AUDIT_WRITE"], "drop": ["MKNOD"]}, "readOnlyRootFilesystem": False}
    assert security(**theirs) == theirs | {"capabilities": {"add": ["AUDIT_WRITE", "SYS_CHROOT"], "drop": ["MKNOD"]}}
    assert security(privileged=True) == {"privileged": True}
    with pytest.raises(Refusal, match=r"^login: securityContext drops AUDIT_WRITE, but sshd needs it"):
        security(capabilities={"drop": ["AUDIT_WRITE"]})
