"""What no Pod of a cluster may do to the files of people, to its keys or to its Node."""

from typing import Any

import pytest
from tests.unit.operator.slurmcluster.clusters import cluster, container, pod, with_nodes
from tests.unit.operator.slurmcluster.test_controlplane import EVERYTHING, WORKLOADS

NODES = ("NodeSet", "slurm-cpu")
LOGIN = ("StatefulSet", "slurm-login")
HOMES = {"compute": {"mounts": [{"name": "/home", "pvc": "homes"}], "nodes": {"cpu": {"enabled": True}}}}


@pytest.mark.parametrize("which", [LOGIN, NODES])
def test_claims_of_people_keep_their_owners_and_modes(which: tuple[str, str]) -> None:
    spec = pod(cluster(HOMES), *which)
    assert any("persistentVolumeClaim" in one for one in spec["volumes"])
    assert not {"fsGroup", "fsGroupChangePolicy", "supplementalGroups"} & set(spec["securityContext"])


@pytest.mark.parametrize("which", [*WORKLOADS, NODES])
def test_no_pod_has_more_system_calls_than_a_container_usually_has(which: tuple[str, str]) -> None:
    spec = pod(cluster(EVERYTHING), *which)
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


@pytest.mark.parametrize("which", [LOGIN, NODES])
def test_no_pod_in_which_people_are_has_a_password_of_a_directory(which: tuple[str, str]) -> None:
    user = {"existingSecret": "snippet", "passwordSecret": "password"}
    service = {"directories": [{"ldapUri": "ldaps://a", "ldapsCert": "tls", "user": user}]}
    spec = pod(cluster(HOMES | {"directoryService": service}), *which)
    named = {one["secret"]["secretName"] for one in spec["volumes"] if "secret" in one}
    assert not {"snippet", "password"} & named
    private = [one["secret"] for one in spec["volumes"] if "secret" in one and one["name"] != "node-keys"]
    assert all(one["defaultMode"] == 0o400 for one in private)


@pytest.mark.parametrize("which", [LOGIN, NODES])
def test_people_find_no_token_for_the_api_server(which: tuple[str, str]) -> None:
    spec = pod(cluster(HOMES), *which)
    assert spec["automountServiceAccountToken"] is False
    projected = [source for volume in spec["volumes"] for source in volume.get("projected", {}).get("sources", ())]
    tokens = [source["serviceAccountToken"] for source in projected if "serviceAccountToken" in source]
    assert [token["audience"] for token in tokens] == (["sunk.coreweave.com/team/slurm"] if which == NODES else [])


@pytest.mark.parametrize("which", [LOGIN, NODES])
def test_containers_for_jobs_can_have_all_system_calls(which: tuple[str, str]) -> None:
    free = {"seccompProfile": {"type": "Unconfined"}}
    nodes = {"cpu": {"enabled": True}}
    made = cluster({"login": {"securityContext": free}, "compute": {"securityContext": free, "nodes": nodes}})
    assert container(made, *which)["securityContext"]["seccompProfile"] == {"type": "Unconfined"}


def test_only_the_daemon_that_needs_a_key_can_read_it() -> None:
    made = cluster(EVERYTHING)
    for which in (*WORKLOADS, NODES):
        spec = pod(made, *which)
        secret = {one["name"]: one for one in spec["volumes"] if "auth-slurm" in str(one) or "-jwt" in str(one)}
        for volume in secret.values():
            mounted = [one for one in spec["containers"] if _mounts(one, volume["name"])]
            if which == NODES:
                assert volume["secret"]["defaultMode"] == 0o400
            else:
                assert mounted == [], f"{which} has the Secret itself, which its group may read"


@pytest.mark.parametrize(
    ("which", "owner"),
    [(LOGIN, "64030"), (("Deployment", "slurm-controller"), None), (("Deployment", "slurm-syncer"), None)],
)
def test_keys_are_copied_for_their_daemon_before_it_starts(which: tuple[str, str], owner: str | None) -> None:
    spec = pod(cluster(EVERYTHING), *which)
    first = spec["initContainers"][0]
    assert (first["name"], first["restartPolicy"]) == ("keys", "Always")
    assert first["lifecycle"]["postStart"], "the daemons wait for it"
    assert {one["name"]: one["value"] for one in first["env"]}.get("OWNER") == owner
    assert first["securityContext"]["capabilities"].get("add", []) == (["CHOWN"] if owner else [])
    (copies,) = [one for one in spec["volumes"] if one["name"] == "keys"]
    assert copies["emptyDir"]["medium"] == "Memory"


@pytest.mark.parametrize(
    ("definition", "compute", "expected"),
    [
        ({"resources": {"limits": {"memory": "64Gi"}}}, {}, "32Gi"),
        ({"resources": {"limits": {"memory": "64Gi"}}}, {"sharedMemory": "8Gi"}, "8Gi"),
        ({"resources": {"limits": {"memory": "64Gi"}}, "sharedMemory": "1Gi"}, {"sharedMemory": "8Gi"}, "1Gi"),
        ({}, {}, None),
    ],
)
def test_shared_memory_has_a_size(definition: dict[str, Any], compute: dict[str, Any], expected: str | None) -> None:
    made = with_nodes(compute, cpu=definition)
    assert _shared_memory(pod(made, *NODES)) == expected
    assert any(one["mountPath"] == "/dev/shm" for one in container(made, *NODES)["volumeMounts"])  # noqa: S108


def test_shared_memory_of_logins_has_a_size() -> None:
    assert _shared_memory(pod(cluster(), *LOGIN)) == "4Gi"
    assert _shared_memory(pod(cluster({"login": {"sharedMemory": "1Gi"}}), *LOGIN)) == "1Gi"


def _shared_memory(spec: dict[str, Any]) -> str | None:
    (found,) = [one["emptyDir"] for one in spec["volumes"] if one["name"] == "shared-memory"]
    assert found["medium"] == "Memory"
    size: str | None = found.get("sizeLimit")
    return size


def _mounts(container: dict[str, Any], volume: str) -> bool:
    return any(one["name"] == volume for one in container.get("volumeMounts", ()))
