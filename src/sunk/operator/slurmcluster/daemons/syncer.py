"""The syncer: a Pod of ours with a sackd beside it, and an account that may do what it needs and no more.

It reaches Slurm as any client does: sackd fetches the configuration from slurmctld and vouches for the uid of who asks.
That uid is SlurmUser's, which may give orders; the key itself only sackd sees, and sackd in turn does not see the token
of the account.
"""

from typing import Final

from sunk.model import names, settings
from sunk.model.contract import clusterobjects, hooks, people
from sunk.model.contract.syncerwrites import ACCOUNT_SUFFIX
from sunk.operator.slurmcluster.builders import keyfiles, pods, secrets
from sunk.operator.slurmcluster.builders.metadata import CONFIG_HASH, SYNCER, metadata, selector
from sunk.operator.slurmcluster.builders.pods import Object
from sunk.operator.slurmcluster.resolve import ResolvedCluster
from sunk.operator.slurmcluster.slurmconf.conf import ETC, restart_fingerprint

NAME: Final = clusterobjects.SYNCER
PORT: Final = clusterobjects.HEALTH_PORT
HOOKS_PORT: Final = clusterobjects.HOOKS_PORT
TLS_VOLUME: Final = "hooks-tls"
"""With the certificate of the hook API."""
_GRACE: Final = 30
_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_RBAC: Final = "rbac.authorization.k8s.io"
_RUN: Final = "/run/slurm"
_TOKEN_SECONDS: Final = 3607
"""What Kubernetes itself asks for; the kubelet renews it in time."""


def objects(cluster: ResolvedCluster) -> tuple[Object, ...]:
    kept = _user_accounts(cluster)
    if not cluster.spec.syncer.enabled:
        return (kept,)
    return (_account(cluster), _role(cluster), _binding(cluster), kept, _service(cluster), _deployment(cluster))


def account(cluster: ResolvedCluster) -> str:
    """The name of its account."""
    return f"{cluster.name}{ACCOUNT_SUFFIX}"


def _account(cluster: ResolvedCluster) -> Object:
    meta = metadata(cluster, SYNCER) | {"name": account(cluster)}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta, "automountServiceAccountToken": False}


def _role(cluster: ResolvedCluster) -> Object:
    return {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": metadata(cluster, SYNCER), "rules": rules(cluster)}


def rules(cluster: ResolvedCluster) -> list[Object]:
    """What it may do, in its own namespace. The operator must hold all of it, or it could not grant it."""
    follow, ours = ("get", "list", "watch"), (names.GROUP,)
    return [
        # Through its status, where labels and annotations can be written and the spec cannot: who may change the image of
        # a Pod is root on its Node, and who may delete one Pod may delete all.
        _rule(("",), ("pods",), follow),
        _rule(("",), ("pods/status",), ("patch",)),
        _rule(ours, ("nodesets", "nodeslices"), follow),
        _rule(ours, ("nodeslices/status",), ("patch",)),
        _rule(ours, ("slurmclusters",), follow, only=cluster.name),
        # Its report is there. The spec decides which images run as what.
        _rule(ours, ("slurmclusters/status",), ("patch",), only=cluster.name),
        _rule(("",), ("configmaps",), follow, only=cluster.named(clusterobjects.SLURM_CONF)),
        # Who the users are, and whom it has given an account. It writes nothing but the note about that.
        _rule(("",), ("configmaps",), follow, only=cluster.named(people.AGENT)),
        _rule(("",), ("configmaps",), follow, only=_users(cluster)),
        _rule(("",), ("configmaps",), (*follow, "patch"), only=cluster.named(clusterobjects.USER_ACCOUNTS)),
        # A creation has no name yet that it could be held against.
        _rule(("coordination.k8s.io",), ("leases",), ("create",)),
        _rule(("coordination.k8s.io",), ("leases",), ("get", "patch"), only=cluster.named(NAME)),
        _rule(("events.k8s.io",), ("events",), ("create", "patch")),
    ]


def _users(cluster: ResolvedCluster) -> str:
    """The ConfigMap with the users of the values."""
    return cluster.spec.users.config_map or cluster.named(people.USERS)


def _user_accounts(cluster: ResolvedCluster) -> Object:
    """Without data: who applies none owns none, and leaves alone what the syncer writes there.

    It is there without a syncer too: what is in it could be had from nowhere else.
    """
    meta = metadata(cluster, SYNCER, name=clusterobjects.USER_ACCOUNTS)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


def _rule(groups: tuple[str, ...], resources: tuple[str, ...], verbs: tuple[str, ...], *, only: str = "") -> Object:
    made = {"apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs)}
    return made | ({"resourceNames": [only]} if only else {})


def _binding(cluster: ResolvedCluster) -> Object:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": metadata(cluster, SYNCER),
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": cluster.named(NAME)},
        "subjects": [{"kind": "ServiceAccount", "name": account(cluster), "namespace": cluster.namespace}],
    }


def _service(cluster: ResolvedCluster) -> Object:
    """For scrapers and for prologs."""
    spec = pods.service(cluster, SYNCER, port=PORT, name="metrics")
    spec["ports"] += [{"name": "hooks", "port": HOOKS_PORT, "targetPort": HOOKS_PORT}]
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata(cluster, SYNCER), "spec": spec}


def _deployment(cluster: ResolvedCluster) -> Object:
    wanted, user = cluster.spec.syncer, cluster.spec.controller.security_context
    body = pods.Body(
        containers=[_container(cluster)],
        init=[keyfiles.container(cluster, cluster.spec.controller.image), _sackd(cluster)],
        volumes=[
            *keyfiles.volumes(secrets.auth(cluster)),
            {"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
            _token(),
            pods.secret(TLS_VOLUME, secret=secrets.hook_certificate(cluster, cluster.certificate)),
        ],
        security=pods.as_user(user.run_as_user, group=user.run_as_group),
        grace=_GRACE,
        priority=wanted.priority_class_name,
        annotations={CONFIG_HASH: restart_fingerprint(cluster)},
    )
    template = pods.template(cluster, SYNCER, body)
    template["spec"]["serviceAccountName"] = account(cluster)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(cluster, SYNCER),
        "spec": {
            "replicas": wanted.replicas,
            # The new one has read both sides before the old one ends: so nothing waits in between.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "selector": {"matchLabels": selector(cluster, SYNCER)},
            "template": template,
        },
    }


def _container(cluster: ResolvedCluster) -> Object:
    wanted = cluster.spec.syncer
    return {
        "name": NAME,
        **pods.image(cluster, wanted.image, cluster.spec.sunk_image),
        "args": ["syncer", *arguments(cluster)],
        # A copy that was killed and comes back in the same Pod is the same leader, and need not wait for its own lease.
        # The cluster is for who comes in and types `sunk verify`.
        "env": [
            {"name": "SUNK_IDENTITY", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "SUNK_CLUSTER", "value": cluster.name},
            *pods.environment(variables(cluster)),
        ],
        "ports": [{"name": "metrics", "containerPort": PORT}, {"name": "hooks", "containerPort": HOOKS_PORT}],
        # It answers from its first moment, also while it waits for slurmctld to give it a configuration.
        "startupProbe": _http_get("/healthz", periodSeconds=1, failureThreshold=60),
        "readinessProbe": _http_get("/readyz", periodSeconds=2),
        "livenessProbe": _http_get("/healthz", periodSeconds=10, failureThreshold=6),
        **pods.resources(wanted.resources),
        "securityContext": pods.UNPRIVILEGED | {"readOnlyRootFilesystem": True},
        "volumeMounts": [
            {"name": "run", "mountPath": _RUN},
            {"name": "token", "mountPath": _ACCOUNT, "readOnly": True},
            {"name": TLS_VOLUME, "mountPath": hooks.SERVER_FOLDER, "readOnly": True},
        ],
    }


def _http_get(path: str, **times: int) -> Object:
    return {"httpGet": {"path": path, "port": PORT}, "timeoutSeconds": 10, **times}


def arguments(cluster: ResolvedCluster) -> list[str]:
    options = {
        "cluster": cluster.name,
        "namespace": cluster.namespace,
        "port": PORT,
        "stop-seconds": _GRACE - 10,
    }
    return [f"--{name}={value}" for name, value in options.items()]


def variables(cluster: ResolvedCluster) -> dict[str, str]:
    """Not arguments, for the reason that `model.settings` has: a syncer of an earlier release does not know them."""
    wanted = cluster.spec.syncer
    return settings.environment(wanted.config.syncer) | {
        "SUNK_HOOKS_PORT": str(HOOKS_PORT),
        "SUNK_HOOKS_TIMEOUT": str(wanted.hooks_api.timeout),
        "SUNK_NODE_REBOOT_CONDITION": wanted.hooks_api.node_reboot_condition,
        "SUNK_NODE_REBOOT_REASON": wanted.hooks_api.node_reboot_reason,
        "SUNK_USERS_CONFIG_MAP": _users(cluster),
        "SUNK_NODE_PERMISSIONS": str(wanted.node_permissions.enabled).lower(),
    }


def _sackd(cluster: ResolvedCluster) -> Object:
    """Runs as long as the Pod does, and starts before it: s6 starts it again while slurmctld is still to come."""
    options = f"--conf-server {cluster.named('controller')}:{clusterobjects.SLURMCTLD_PORT}"
    return {
        "name": "sackd",
        "restartPolicy": "Always",
        **pods.image(cluster, cluster.spec.controller.image),
        "args": ["sackd"],
        "env": pods.environment({pods.STOP: pods.stop(_GRACE), "SACKD_OPTIONS": options} | keyfiles.variables(ETC)),
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        "securityContext": pods.UNPRIVILEGED,
        "volumeMounts": [keyfiles.mount(ETC), {"name": "run", "mountPath": _RUN}],
    }


def _token() -> Object:
    """The account's token, for the one container that needs it."""
    sources: list[Object] = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": _TOKEN_SECONDS}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    return {"name": "token", "projected": {"defaultMode": 0o440, "sources": sources}}
