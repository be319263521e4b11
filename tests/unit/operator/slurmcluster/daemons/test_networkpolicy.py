"""Who gets through to whom, by an evaluator of NetworkPolicies that knows what Kubernetes says about them."""

from typing import Any

import pytest
from msgspec import Struct
from tests.unit.operator.slurmcluster.clusters import cluster, kinds

from sunk.operator.slurmcluster.builders.metadata import (
    ACCOUNTING,
    COMPUTE,
    CONFIGURATION,
    CONTROLLER,
    DATABASE,
    DIRECTORY,
    LOGIN,
    REST,
    SYNCER,
    Component,
    labels,
)
from sunk.operator.slurmcluster.objects import objects
from sunk.operator.slurmcluster.resolve import ResolvedCluster

ALL: dict[str, Any] = {
    "rest": {"enabled": True},
    "compute": {"nodes": {"cpu": {"enabled": True}}},
    "directoryService": {"directories": [{"ldapUri": "ldaps://a"}]},
}
EPHEMERAL = 41234
NEEDED = [
    # Every client of Slurm, and slurmdbd that tells of new limits.
    *((part, CONTROLLER, 6817) for part in (COMPUTE, LOGIN, REST, SYNCER, ACCOUNTING, CONFIGURATION)),
    *((part, ACCOUNTING, 6819) for part in (CONTROLLER, LOGIN, COMPUTE, REST, SYNCER)),
    (ACCOUNTING, DATABASE, 3306),
    (CONFIGURATION, DATABASE, 3306),
    # slurmd, srun inside jobs, sattach, MPI, ssh to a node.
    *((part, COMPUTE, port) for part in (CONTROLLER, LOGIN, COMPUTE) for port in (6818, EPHEMERAL, 22)),
    # srun and salloc of people who are logged in, and sackd.
    *((part, LOGIN, port) for part in (CONTROLLER, COMPUTE) for port in (6818, EPHEMERAL)),
    (CONTROLLER, SYNCER, 6818),
    # Prologs call the hook API.
    (COMPUTE, SYNCER, 8443),
]
REFUSED = [
    *((COMPUTE, DATABASE, 3306), (LOGIN, DATABASE, 3306), (CONTROLLER, DATABASE, 3306)),
    *((COMPUTE, SYNCER, 6818), (LOGIN, SYNCER, 6818), (COMPUTE, CONTROLLER, EPHEMERAL)),
    *((LOGIN, SYNCER, 8443), (CONTROLLER, SYNCER, 8443), (REST, SYNCER, 8443)),
    *((part, DIRECTORY, EPHEMERAL) for part in (CONTROLLER, LOGIN, COMPUTE, SYNCER)),
    *((SYNCER, COMPUTE, 22), (REST, COMPUTE, 22), (DIRECTORY, COMPUTE, 22), (DIRECTORY, CONTROLLER, 6817)),
    *((SYNCER, COMPUTE, 6818), (REST, LOGIN, EPHEMERAL), (COMPUTE, CONFIGURATION, 6817)),
]
PORTS = {
    CONTROLLER: 6817,
    ACCOUNTING: 6819,
    DATABASE: 3306,
    COMPUTE: 6818,
    LOGIN: EPHEMERAL,
    REST: 6820,
    SYNCER: 6818,
    DIRECTORY: 389,
    CONFIGURATION: 6817,
}


class Peer(Struct, frozen=True):
    """Who connects: a Pod, or with no labels at all something outside of Kubernetes, or on the network of a Node."""

    namespace: str = ""
    labels: dict[str, str] | None = None


def pod(made: ResolvedCluster, part: Component) -> Peer:
    return Peer("team", labels(made, part))


OUTSIDE = Peer()
TENANTS = {
    "a Pod of the same namespace": Peer("team", {"app": "mine"}),
    "a Pod of another namespace": Peer("other", {"app": "mine"}),
    "a Pod of another namespace with our labels": Peer("other", labels(cluster(), COMPUTE)),
    "a Pod of another cluster of the namespace": Peer(
        "team", labels(cluster(), COMPUTE) | {"sunk.coreweave.com/cluster": "b"}
    ),
    "something outside": OUTSIDE,
}


def allowed(made: ResolvedCluster, peer: Peer, to: Component, port: int) -> bool:
    """Whether any policy lets it through; a Pod that no policy chooses is open."""
    there = labels(made, to)
    policies = [one for one in objects(made) if one["kind"] == "NetworkPolicy"]
    chosen = [one["spec"] for one in policies if _matches(one["spec"]["podSelector"], there)]
    assert all(one["policyTypes"] == ["Ingress"] for one in chosen)
    rules = [rule for one in chosen for rule in one["ingress"]]
    return not chosen or any(_lets_in(rule, peer, port) for rule in rules)


def _lets_in(rule: dict[str, Any], peer: Peer, port: int) -> bool:
    ports = [one["port"] for one in rule.get("ports", ())]
    assert all(one["protocol"] == "TCP" for one in rule.get("ports", ()))
    if ports and port not in ports:
        return False
    return "from" not in rule or any(_is(one, peer) for one in rule["from"])


def _is(wanted: dict[str, Any], peer: Peer) -> bool:
    if peer.labels is None:
        return False
    # Without a selector of namespaces only the policy's own is meant.
    spaces = wanted.get("namespaceSelector")
    here = peer.namespace == "team" if spaces is None else _matches(spaces, {"name": peer.namespace})
    return here and _matches(wanted.get("podSelector", {}), peer.labels)


def _matches(selector: dict[str, Any], found: dict[str, str]) -> bool:
    assert set(selector) <= {"matchLabels"}
    return bool(selector.get("matchLabels", {}).items() <= found.items())


@pytest.mark.parametrize(("source", "to", "port"), NEEDED)
def test_every_connection_that_a_part_makes_is_let_in(source: Component, to: Component, port: int) -> None:
    made = cluster(ALL)
    assert allowed(made, pod(made, source), to, port)


@pytest.mark.parametrize(("source", "to", "port"), REFUSED)
def test_parts_reach_no_more_than_they_need(source: Component, to: Component, port: int) -> None:
    made = cluster(ALL)
    assert not allowed(made, pod(made, source), to, port)


@pytest.mark.parametrize("tenant", TENANTS.values(), ids=TENANTS.keys())
@pytest.mark.parametrize("to", PORTS)
def test_tenants_reach_no_part(tenant: Peer, to: Component) -> None:
    expected = to == REST and tenant.namespace == "team"
    assert allowed(cluster(ALL), tenant, to, PORTS[to]) is expected


@pytest.mark.parametrize("tenant", TENANTS.values(), ids=TENANTS.keys())
def test_tenants_do_not_reach_the_hook_api(tenant: Peer) -> None:
    assert not allowed(cluster(ALL), tenant, SYNCER, 8443)


@pytest.mark.parametrize("tenant", TENANTS.values(), ids=TENANTS.keys())
def test_everybody_reaches_sshd_and_the_metrics(tenant: Peer) -> None:
    made = cluster(ALL)
    assert allowed(made, tenant, LOGIN, 22)
    assert allowed(made, tenant, SYNCER, 8080)
    assert allowed(made, tenant, DIRECTORY, 8080)


@pytest.mark.parametrize("tenant", TENANTS.values(), ids=TENANTS.keys())
def test_everybody_reaches_the_additional_ports_of_logins_where_the_pods_listen(tenant: Peer) -> None:
    ports = [{"name": "web", "port": 443, "targetPort": 8443}]
    made = cluster(ALL | {"login": {"service": {"additionalPorts": ports}}})
    assert allowed(made, tenant, LOGIN, 8443)
    assert allowed(made, tenant, LOGIN, 22)
    assert not allowed(made, tenant, LOGIN, 443)


def test_nodes_on_the_network_of_their_nodes_reach_what_they_need() -> None:
    nodes = {"cpu": {"enabled": True, "hostNetwork": True}}
    made = cluster(ALL | {"compute": {"nodes": nodes}})
    for to, port in ((CONTROLLER, 6817), (ACCOUNTING, 6819), (LOGIN, EPHEMERAL), (COMPUTE, EPHEMERAL), (SYNCER, 8443)):
        assert allowed(made, OUTSIDE, to, port)
    assert not allowed(made, OUTSIDE, DATABASE, 3306)


def test_a_slurmdbd_elsewhere_reaches_slurmctld() -> None:
    made = cluster({"accounting": {"remoteHost": "dbd.example.com"}})
    assert allowed(made, OUTSIDE, CONTROLLER, 6817)
    assert ("NetworkPolicy", "slurm-mysql") not in kinds(made)


def test_a_part_takes_further_rules() -> None:
    friend = {"from": [{"namespaceSelector": {"matchLabels": {"name": "other"}}}]}
    made = cluster(ALL | {"networkPolicy": {"ingress": {"rest": [friend]}}})
    assert allowed(made, Peer("other", {}), REST, 6820)
    assert not allowed(made, Peer("third", {}), REST, 6820)


def test_one_value_switches_all_of_them_off() -> None:
    made = cluster(ALL | {"networkPolicy": {"enabled": False}})
    assert not [one for one in kinds(made) if one[0] == "NetworkPolicy"]
