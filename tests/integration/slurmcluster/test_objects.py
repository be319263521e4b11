"""What a real API server says to the chart, to the SlurmCluster it renders, and to all that is built from that."""

from base64 import b64decode
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.conftest import Kubectl
from tests.helm import Helm
from tests.integration.slurmcluster.conftest import Try, attempt

from sunk.model.cluster.kind import SlurmClusterSpec
from sunk.model.names import GROUP, VERSION
from sunk.operator.slurmcluster.objects import objects
from sunk.operator.slurmcluster.resolve import ResolvedCluster, resolve

SLURM = Path(__file__).parents[3] / "charts" / "slurm"
FILES: dict[str, tuple[str, ...]] = {
    "default": (),
    "local": ("values-local.yaml",),
    "coreweave": ("values-coreweave.yaml",),
}
FULL: dict[str, Any] = {
    "imagePullSecrets": [{"name": "registry"}],
    "nodeSelector": {"region": "LAS1", "labels": {"pool": "system"}},
    "rest": {"enabled": True, "replicas": 2},
    "accounting": {"extraConfig": "PurgeJobAfter=12months"},
    "slurmConfig": {
        "slurmCtld": {"etcConfigMap": "more"},
        "slurmd": {"prologConfigMap": "before", "epilogConfigMap": "after"},
    },
    "controller": {
        "priorityClassName": "system-cluster-critical",
        "containers": [{"name": "beside", "image": "busybox"}],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
        "annotations": {"note": "this"},
        "state": {"storageClassName": "fast"},
    },
    "login": {
        "service": {
            "exposePublicIP": True,
            "annotations": {"note": "that"},
            "dnsName": "login.example.com",
            "additionalPorts": [{"name": "mosh", "port": 60000, "protocol": "UDP"}],
            "perPod": True,
        },
        "replicas": 2,
        "sessionWaitSeconds": 60,
        "containers": [{"name": "beside", "image": "busybox"}],
        "s6": {
            "first": {"type": "oneshot", "script": "true"},
            "web": {"type": "longrun", "script": "sleep 1", "dependencies": ["first"]},
        },
        "env": [{"name": "A", "value": "1"}],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
    },
    "mysql": {"storage": {"existingClaim": "old"}},
    "directoryService": {
        "sudoGroups": ["admins"],
        "directories": [
            {
                "name": "Corp.Example",
                "ldapUri": "ldaps://a.example.com,ldap://b.example.com",
                "user": {"bindDn": "cn=x", "passwordSecret": "p", "existingSecret": "s", "canary": "alice"},
                "ldapsCert": "tls",
                "sudoGroups": ["Domain Admins"],
                "schema": "AD",
                "additionalConfig": "min_id = 1000",
            },
            {"name": "off", "enabled": False},
        ],
    },
    "compute": {
        "mounts": [
            {"name": "/home", "pvc": "home"},
            {"name": "/data", "pvc": "home", "subPath": "d", "readOnly": True},
        ],
        "s6": {"packages": {"type": "oneshot", "script": "true", "timeoutUp": 5000}},
        "securityContext": {"capabilities": {"add": ["SYS_NICE", "SYS_ADMIN"]}},
        "priorityClassName": "",
        "nodes": {
            "gpu": {
                "enabled": True,
                "replicas": 3,
                "features": ["h100", "las1"],
                "dynamicFeatures": {"driver": {"prefix": "driver-"}},
                "gresGpu": "h100:8",
                "skuCpu": 128,
                "image": {"repository": "custom", "tag": "1"},
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
                ],
                "resources": {
                    "limits": {"memory": "960Gi", f"{GROUP}/accelerator": "8"},
                    "requests": {"cpu": "110", "memory": "960Gi", f"{GROUP}/accelerator": "8"},
                },
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]
                        }
                    }
                },
                "tolerations": [{"key": "gpu", "operator": "Exists"}],
                "containers": [{"name": "beside", "image": "busybox"}],
                "volumes": [{"name": "ib", "hostPath": {"path": "/dev/infiniband"}}],
                "volumeMounts": [{"name": "ib", "mountPath": "/dev/infiniband"}],
                "labels": {"team": "a"},
                "annotations": {"note": "b"},
                "hostNetwork": True,
                "maxUnavailable": 3,
                "updateStrategy": "OnDelete",
            },
            "cpu": {"enabled": True, "sharing": "slurmOnly", "resources": {"limits": {"cpu": 4, "memory": "8Gi"}}},
        },
    },
}


def rendered(helm: Helm, *files: str, sets: tuple[str, ...] = ()) -> dict[str, Any]:
    chosen = [word for file in files for word in ("-f", str(SLURM / file))]
    chosen += [word for value in sets for word in ("--set", value)]
    every = yaml.safe_load_all(helm("template", "slurm", str(SLURM), *chosen))
    (found,) = [one for one in every if one and one["kind"] == "SlurmCluster"]
    return dict(found)


def accounts(cluster: ResolvedCluster) -> list[str]:
    return [one["metadata"]["name"] for one in objects(cluster) if one["kind"] == "ServiceAccount"]


def cluster_of(spec: dict[str, Any], *, namespace: str) -> ResolvedCluster:
    found = msgspec.json.decode(msgspec.json.encode(spec), type=SlurmClusterSpec)
    return resolve(found, name="slurm", namespace=namespace, uid="8f0a1c9e-0000-4000-8000-000000000000")


def pods(cluster: ResolvedCluster) -> list[dict[str, Any]]:
    """A Pod out of each template, which the API server looks into only as a Pod."""
    made = []
    for one in objects(cluster):
        if template := one.get("spec", {}).get("template"):
            # Classes of the chart sunk are not on this API server, and claims of templates not in the Pod.
            spec = {key: value for key, value in template["spec"].items() if key != "priorityClassName"}
            claims = one["spec"].get("volumeClaimTemplates", ())
            more = [{"name": each["metadata"]["name"], "emptyDir": {}} for each in claims]
            spec |= {"volumes": [*spec.get("volumes", ()), *more]}
            metadata = template["metadata"] | {"name": f"try-{one['metadata']['name']}", "namespace": cluster.namespace}
            made.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return made


@pytest.mark.parametrize("files", FILES.values(), ids=FILES.keys())
def test_the_chart_and_all_that_is_built_from_it_are_taken(helm: Helm, tried: Try, files: tuple[str, ...]) -> None:
    helm("lint", "--strict", str(SLURM), *(word for file in files for word in ("-f", str(SLURM / file))))
    one = rendered(helm, *files)
    assert (one["apiVersion"], one["kind"]) == (f"{GROUP}/{VERSION}", "SlurmCluster")
    assert tried([one])
    made = cluster_of(one["spec"], namespace=helm.kubectl.namespace)
    for account in accounts(made):
        helm.kubectl("create", "serviceaccount", account)
    assert len(tried([*objects(made), *pods(made)])) == len(objects(made)) + len(pods(made))


def test_every_value_leads_to_objects_that_are_taken(tried: Try, kubectl: Kubectl) -> None:
    body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "SlurmCluster", "metadata": {"name": "slurm"}, "spec": FULL}
    assert tried([body])
    made = cluster_of(FULL, namespace=kubectl.namespace)
    for account in accounts(made):
        kubectl("create", "serviceaccount", account)
    everything = [*objects(made), *pods(made)]
    assert len(tried(everything)) == len(everything)


def test_logins_to_nodes_lead_to_objects_that_are_taken(tried: Try, kubectl: Kubectl) -> None:
    spec = {"compute": {"ssh": {"enabled": True}, "nodes": {"cpu": {"enabled": True}}}, "syncer": {"enabled": False}}
    everything = [*objects(made := cluster_of(spec, namespace=kubectl.namespace)), *pods(made)]
    assert len(tried(everything)) == len(everything)


def test_a_password_becomes_a_secret_and_null_means_that_a_value_is_not_set(
    helm: Helm, tried: Try, tmp_path: Path
) -> None:
    user = {"bindDn": "cn=x", "password": 'a"b\\c<&# '}
    blank = {"name": "blank", "enabled": None, "user": None, "sudoGroups": None, "schema": None, "ldapUri": "ldap://b"}
    directories = [
        {"name": "a", "ldapUri": "ldaps://a", "user": user},
        blank,
        {"name": None, "enabled": False, "sudoGroups": ""},
    ]
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump({"directoryService": {"sudoGroups": "", "directories": directories}}))
    text = helm("template", "slurm", str(SLURM), "-f", str(file))
    found = {one["kind"]: one for one in yaml.safe_load_all(text) if one}
    secret, body = found["Secret"], found["SlurmCluster"]
    assert secret["metadata"]["name"] == "slurm-directory-0"
    assert secret["metadata"]["labels"] == body["metadata"]["labels"]
    assert b64decode(secret["data"]["password"]).decode() == user["password"]
    assert "sudoGroups" not in body["spec"]["directoryService"]
    first = body["spec"]["directoryService"]["directories"][0]["user"]
    assert first == {"bindDn": "cn=x", "passwordSecret": "slurm-directory-0"}
    assert tried([body])


@pytest.mark.parametrize(
    "place", [{"user": {"password": "hunter2"}}, {"additionalConfig": "min_id = 1\nldap_default_authtok\t= hunter2"}]
)
def test_a_password_is_not_taken_into_a_slurmcluster(kubectl: Kubectl, place: dict[str, Any]) -> None:
    spec = {"directoryService": {"directories": [{"ldapUri": "ldaps://a"} | place]}}
    body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "SlurmCluster", "metadata": {"name": "slurm"}, "spec": spec}
    refused = attempt(kubectl, body)
    assert "a password must not be in the SlurmCluster" in refused
    assert "hunter2" not in refused


def test_layers_of_the_chart_reach_the_operator_and_a_definition_is_composed_of_them(helm: Helm) -> None:
    one = rendered(helm, sets=("compute.nodes.cpu-epyc.enabled=true",))
    assert {"base", "h100", "las1", "cu117"} <= set(one["spec"]["compute"]["layers"])
    (definition,) = cluster_of(one["spec"], namespace="default").definitions
    assert "epyc" in definition.features


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("controler.replicas=1", "controler"),
        ("controller.replicas=-1", "/controller/replicas"),
        ("compute.nodes.cpu.enabeld=true", "/compute/nodes/cpu"),
        ("slurmConfig.killWait=soon", "/slurmConfig/killWait"),
        ("login.service.type=Nothing", "/login/service/type"),
    ],
)
def test_helm_refuses_a_wrong_value_with_its_path(helm: Helm, value: str, said: str) -> None:
    refused = helm.attempt("template", "slurm", str(SLURM), "--set", value)
    assert refused.returncode != 0
    assert said in refused.stderr


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"controler": {}}, ".spec.controler"),
        ({"controller": {"replicas": 2}}, "two would fight over the state"),
        ({"compute": {"nodes": {"a": {"enabeld": True}}}}, "enabeld"),
        ({"compute": {"nodes": {"a": {"gresGpu": "8 x h100"}}}}, "must be type and number of GPUs, such as h100:8"),
        (
            {"slurmConfig": {"selectTypeParameters": "CR_Core\nInclude /etc/shadow"}},
            "spec.slurmConfig.selectTypeParameters",
        ),
        ({"slurmConfig": {"cgroupConfig": {"A": "x\ny"}}}, "spec.slurmConfig.cgroupConfig.A"),
        (
            {
                "slurmConfig": {
                    "slurmCtld": {"prockTrackType": "proctrack/cgroup", "procTrackType": "proctrack/linuxproc"}
                }
            },
            "old spelling",
        ),
    ],
)
def test_the_api_server_refuses_a_wrong_value_with_its_path(kubectl: Kubectl, spec: dict[str, Any], said: str) -> None:
    body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "SlurmCluster", "metadata": {"name": "slurm"}, "spec": spec}
    assert said in attempt(kubectl, body)
