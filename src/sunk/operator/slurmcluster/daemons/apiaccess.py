"""How a daemon of ours reaches the API server: an account of its own, what that may do, and its token.

The token is a volume, for the one container that needs it, and not mounted by itself into all of a Pod.
"""

from collections.abc import Sequence
from typing import Any, Final

from sunk.operator.slurmcluster.builders.metadata import Component, metadata
from sunk.operator.slurmcluster.builders.pods import Object
from sunk.operator.slurmcluster.resolve import ResolvedCluster

_RBAC: Final = "rbac.authorization.k8s.io"
_SECONDS: Final = 3607
"""What Kubernetes itself asks for; the kubelet renews it in time."""
_SOURCES: Final[list[Object]] = [
    {"serviceAccountToken": {"path": "token", "expirationSeconds": _SECONDS}},
    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
]
TOKEN: Final[Object] = {"name": "token", "projected": {"defaultMode": 0o440, "sources": _SOURCES}}
TOKEN_MOUNT: Final[Object] = {
    "name": "token",
    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    "readOnly": True,
}


def objects(
    cluster: ResolvedCluster, component: Component, *, account: str, rules: Sequence[Object]
) -> tuple[Object, ...]:
    """The account, a Role with these rules, and what binds them. Role and binding have the name of the component."""
    meta = metadata(cluster, component)
    subject = {"kind": "ServiceAccount", "name": account, "namespace": cluster.namespace}
    return (
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": meta | {"name": account},
            "automountServiceAccountToken": False,
        },
        {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": meta, "rules": list(rules)},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": meta["name"]},
            "subjects": [subject],
        },
    )


def rule(
    groups: tuple[str, ...], resources: tuple[str, ...], verbs: tuple[str, ...], *, only: tuple[str, ...] = ()
) -> Object:
    made = {"apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs)}
    return made | ({"resourceNames": list(only)} if only else {})


def http_get(path: str, *, port: int, **times: Any) -> Object:
    return {"httpGet": {"path": path, "port": port}, "timeoutSeconds": 10, **times}
