"""What each token of a Slurm cluster may do, verb by verb. Whoever widens it changes this table too."""

from typing import Any

from tests.unit.operator.slurmcluster.clusters import cluster

from sunk.operator.slurmcluster.daemons import directory
from sunk.operator.slurmcluster.daemons.syncer import rules
from sunk.operator.slurmcluster.objects import objects
from sunk.operator.slurmcluster.rollout.trial import queue_probe

EVERYTHING: dict[str, Any] = {
    "rest": {"enabled": True},
    "login": {"enabled": True},
    "compute": {"nodes": {"cpu": {"enabled": True}}, "ssh": {"enabled": True}},
    "directoryService": {"directories": [{"ldapUri": "ldaps://a", "ldapsCert": "tls"}]},
}
AGENT = {
    "configmaps slurm-directory": "get patch",
    "configmaps slurm-directory-logins-0": "get patch",
    "configmaps slurm-directory-logins-1": "get patch",
    "configmaps slurm-directory-logins-2": "get patch",
    "configmaps slurm-directory-logins-3": "get patch",
    "configmaps slurm-users": "get",
}
SYNCER = {
    "pods": "get list watch",
    "pods/status": "patch",
    "nodesets.sunk.coreweave.com": "get list watch",
    "nodeslices.sunk.coreweave.com": "get list watch",
    "nodeslices/status.sunk.coreweave.com": "patch",
    "slurmclusters.sunk.coreweave.com slurm": "get list watch",
    "slurmclusters/status.sunk.coreweave.com slurm": "patch",
    "configmaps slurm-slurm-conf": "get list watch",
    "configmaps slurm-directory": "get list watch",
    "configmaps slurm-users": "get list watch",
    "configmaps slurm-user-accounts": "get list watch patch",
    "leases.coordination.k8s.io": "create",
    "leases.coordination.k8s.io slurm-syncer": "get patch",
    "events.events.k8s.io": "create patch",
}


def table(granted: list[dict[str, Any]]) -> dict[str, str]:
    """`resource.group name` for each that is granted, and the verbs."""
    found: dict[str, str] = {}
    for rule in granted:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for name in rule.get("resourceNames", [""]):
                    key = f"{resource}{'.' if group else ''}{group} {name}".strip()
                    assert key not in found
                    found[key] = " ".join(rule["verbs"])
    return found


def test_the_syncer_may_do_this_and_no_more() -> None:
    assert table(rules(cluster())) == SYNCER


def test_the_directory_agent_may_do_this_and_no_more() -> None:
    assert table(directory.rules(cluster(EVERYTHING))) == AGENT


def templates(made: Any) -> dict[str, dict[str, Any]]:
    found = {}
    for one in objects(made):
        spec = one.get("spec", {})
        if "template" in spec:
            found[f"{one['kind']} {one['metadata']['name']}"] = spec["template"]["spec"]
    return found | {"probe Pod": queue_probe(made, ["gone"])["spec"]}


def test_only_the_syncer_and_the_directory_agent_have_a_token() -> None:
    found = templates(cluster(EVERYTHING))
    assert {"Deployment slurm-syncer", "NodeSet slurm-cpu", "probe Pod"} <= set(found)
    assert all(one["automountServiceAccountToken"] is False for one in found.values())
    holders = [
        name for name, one in found.items() if "serviceAccountToken" in str(one) or one.get("serviceAccountName")
    ]
    assert holders == ["Deployment slurm-directory", "Deployment slurm-syncer", "NodeSet slurm-cpu"]


def test_the_token_of_a_compute_pod_is_good_for_the_hook_api_alone_and_roots() -> None:
    spec = templates(cluster(EVERYTHING))["NodeSet slurm-cpu"]
    (volume,) = [volume for volume in spec["volumes"] if "serviceAccountToken" in str(volume)]
    assert volume["name"] == "hooks"
    assert volume["projected"]["defaultMode"] == 0o400
    token, bundle = volume["projected"]["sources"]
    assert token["serviceAccountToken"]["audience"] == "sunk.coreweave.com/team/slurm"
    assert bundle == {"configMap": {"name": "slurm-hooks-ca", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    mounts = {one["mountPath"]: one for one in spec["containers"][0]["volumeMounts"]}
    assert mounts["/run/sunk/hooks"]["readOnly"]
    # No fsGroup and no other user: either would let somebody else than root read it.
    assert not {"fsGroup", "runAsUser"} & set(spec["securityContext"])


def test_without_a_syncer_nobody_has_a_token() -> None:
    found = templates(cluster(EVERYTHING | {"syncer": {"enabled": False}, "directoryService": {}}))
    assert not [name for name, one in found.items() if "serviceAccountToken" in str(one)]
