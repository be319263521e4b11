"""The lock evicts what does not tolerate it without bound. No Pod that we make may be among that."""

from collections.abc import Iterator
from typing import Any

from msgspec import json
from tests.unit.operator.nodeset.factories import nodeset
from tests.unit.operator.slurmcluster.clusters import cluster
from tests.unit.operator.slurmcluster.rollout.test_trial import trials

from sunk.local.addons import volumes
from sunk.local.kubernetes.controlplane import dns_objects
from sunk.local.kubernetes.network import LocalNetwork
from sunk.model import names
from sunk.operator.nodeset.act.podbuilder import PodBuilder
from sunk.operator.slurmcluster.objects import objects
from sunk.operator.slurmcluster.rollout.trial import queue_probe, slurmdbd_trial

WORKLOADS = {"Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicaSet"}
BOUNDED = {"key": names.LOCK, "operator": "Exists", "tolerationSeconds": 5}
EVERYTHING: dict[str, Any] = {
    "rest": {"enabled": True},
    "login": {"enabled": True},
    "directoryService": {"directories": [{"ldapUri": "ldaps://a"}]},
    "compute": {"nodes": {"cpu": {"enabled": True, "tolerations": [BOUNDED]}}},
}


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every Pod that a cluster with all components has at any time."""
    made = cluster(EVERYTHING)
    for one in objects(made):
        name = f"{one['kind']} {one['metadata']['name']}"
        if one["kind"] in WORKLOADS:
            yield name, one["spec"]["template"]["spec"]
        elif one["kind"] == "NodeSet":
            owner = nodeset(template=json.decode(json.encode(one["spec"]["template"])))
            yield name, PodBuilder(owner, revision="abc").pod("a-1", node="n-1")["spec"]
        else:
            assert "template" not in one.get("spec", {}), f"{name} makes Pods too: add it here"
    yield "queue", queue_probe(made, ["gone"])["spec"]
    yield "slurmdbd", slurmdbd_trial(made, {"slurmdbd.conf": ""}).pod["spec"]
    yield from (("slurm.conf", trial.pod["spec"]) for trial in trials(made))


def endures_the_lock(tolerations: list[dict[str, Any]]) -> bool:
    """By the first that matches, as Kubernetes does it."""
    for one in tolerations:
        if one.get("key") == names.LOCK and one.get("effect", "NoExecute") == "NoExecute":
            return "tolerationSeconds" not in one
    return False


def test_every_pod_that_we_make_endures_the_lock_for_any_time() -> None:
    found = dict(pods())
    assert len(found) == 11
    assert [name for name, spec in found.items() if not endures_the_lock(spec.get("tolerations", []))] == []


def test_a_local_cluster_has_its_dns_and_agents_beside_the_control_plane_and_not_in_pods() -> None:
    made = [*dns_objects(LocalNetwork(cluster="a", block="10.77.0.0/16")), *volumes.classes()]
    assert not {one["kind"] for one in made} & {*WORKLOADS, "Pod"}
