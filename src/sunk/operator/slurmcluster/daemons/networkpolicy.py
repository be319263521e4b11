"""Who may connect to which component: one NetworkPolicy for each, about incoming connections only.

Jobs reach whatever the network lets them reach: that is theirs to use, and not ours to guess. What comes in is known:

- Every client asks slurmctld, and most of them slurmdbd (`sacct` runs on login and compute nodes).
- srun listens on ports of its own choice, wherever it was typed. The steps of its job connect to them, and slurmctld.
  `sattach`, X11 and MPI use ports of their own choice too. So nodes and logins are open to each other on all ports.
- Prologs call the hook API of the syncer.
- People log in to login Pods from anywhere, and reach the additional ports of their Service; to nodes they log in from there.
- slurmctld tells slurmd and sackd of a new configuration, both on the port of slurmd.
- A Pod on the network of its Node has the address of the Node, for which no label can be asked: where a definition
  asks for that, what nodes must reach is open to every address. So is slurmctld for a slurmdbd that runs elsewhere.

Probes of the kubelet are let in by every network plugin.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Raw

from sunk.model.contract import clusterobjects
from sunk.operator.slurmcluster.builders import directories, pods, secrets
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
    metadata,
    selector,
)
from sunk.operator.slurmcluster.daemons import loginservices
from sunk.operator.slurmcluster.daemons.database import DATABASE_PORT
from sunk.operator.slurmcluster.daemons.directory import PORT as DIRECTORY_PORT
from sunk.operator.slurmcluster.daemons.slurmrestd import REST_PORT
from sunk.operator.slurmcluster.daemons.syncer import PORT as SYNCER_PORT
from sunk.operator.slurmcluster.resolve import ResolvedCluster

Rules = list[pods.Object]
SAME_NAMESPACE: Final[pods.Object] = {"podSelector": {}}


def objects(cluster: ResolvedCluster) -> tuple[pods.Object, ...]:
    if not cluster.spec.network_policy.enabled:
        return ()
    return tuple(_policy(cluster, component, rules) for component, rules in _rules_by_component(cluster).items())


def _policy(cluster: ResolvedCluster, component: Component, rules: Rules) -> pods.Object:
    spec = {"podSelector": {"matchLabels": selector(cluster, component)}, "policyTypes": ["Ingress"], "ingress": rules}
    meta = metadata(cluster, component)
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": meta, "spec": spec}


def _rules_by_component(cluster: ResolvedCluster) -> Mapping[Component, Rules]:
    spec, more = cluster.spec, cluster.spec.network_policy.ingress
    made: dict[Component, Rules] = {
        CONTROLLER: [*_controller(cluster), *_more(more.controller)],
        COMPUTE: [_nodes(cluster, CONTROLLER, LOGIN, COMPUTE), *_more(more.compute)],
        # A slurmctld on trial asks everybody and is asked by nobody.
        CONFIGURATION: [],
    }
    if secrets.serves_accounting(cluster):
        clients = (CONTROLLER, LOGIN, COMPUTE, REST, SYNCER)
        made[ACCOUNTING] = [_nodes(cluster, *clients, port=clusterobjects.SLURMDBD_PORT), *_more(more.accounting)]
    if secrets.serves_database(cluster):
        made[DATABASE] = [_rule(cluster, ACCOUNTING, CONFIGURATION, port=DATABASE_PORT), *_more(more.mysql)]
    if spec.login.enabled:
        made[LOGIN] = [
            {"ports": loginservices.reached(cluster)},
            _nodes(cluster, CONTROLLER, COMPUTE),
            *_more(more.login),
        ]
    if directories.enabled(cluster):
        # It asks, and is asked by nobody but probes and scrapers.
        made[DIRECTORY] = [_anybody(DIRECTORY_PORT)]
    if spec.rest.enabled:
        made[REST] = [_ports([SAME_NAMESPACE], REST_PORT), *_more(more.rest)]
    if spec.syncer.enabled:
        made[SYNCER] = [
            _anybody(SYNCER_PORT),
            _nodes(cluster, COMPUTE, port=clusterobjects.HOOKS_PORT),
            _rule(cluster, CONTROLLER, port=clusterobjects.SLURMD_PORT),
            *_more(more.syncer),
        ]
    return made


def _controller(cluster: ResolvedCluster) -> Rules:
    if cluster.spec.accounting.enabled and cluster.spec.accounting.remote_host:
        return [_anybody(clusterobjects.SLURMCTLD_PORT)]
    clients = (LOGIN, COMPUTE, SYNCER, REST, ACCOUNTING, CONFIGURATION)
    return [_nodes(cluster, *clients, port=clusterobjects.SLURMCTLD_PORT)]


def _nodes(cluster: ResolvedCluster, *components: Component, port: int = 0) -> pods.Object:
    """As `_rule`, where compute nodes are among the components."""
    if any(definition.host_network for definition in cluster.definitions):
        return _anybody(port)
    return _rule(cluster, *components, port=port)


def _rule(cluster: ResolvedCluster, *components: Component, port: int = 0) -> pods.Object:
    return _ports([{"podSelector": {"matchLabels": selector(cluster, component)}} for component in components], port)


def _anybody(port: int) -> pods.Object:
    return _ports([], port)


def _ports(peers: Sequence[pods.Object], port: int) -> pods.Object:
    """No peers: everybody. No port: all of them."""
    made: dict[str, Any] = {"from": list(peers)} if peers else {}
    return made | ({"ports": [{"protocol": "TCP", "port": port}]} if port else {})


def _more(rules: Sequence[Raw]) -> Rules:
    return pods.plain(rules)
