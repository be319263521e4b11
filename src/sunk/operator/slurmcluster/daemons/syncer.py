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
from sunk.operator.slurmcluster.daemons import apiaccess
from sunk.operator.slurmcluster.resolve import ResolvedCluster
from sunk.operator.slurmcluster.slurmconf.conf import ETC, restart_fingerprint

NAME: Final = clusterobjects.SYNCER
PORT: Final = clusterobjects.HEALTH_PORT
HOOKS_PORT: Final = clusterobjects.HOOKS_PORT
TLS_VOLUME: Final = "hooks-tls"
"""With the certificate of the hook API."""
_GRACE: Final = 30
_RUN: Final = "/run/slurm"


def objects(cluster: ResolvedCluster) -> tuple[Object, ...]:
    kept = _user_accounts(cluster)
    if not cluster.spec.syncer.enabled:
        return (kept,)
    rights = apiaccess.objects(cluster, SYNCER, account=account(cluster), rules=rules(cluster))
    return (*rights, kept, _service(cluster), _deployment(cluster))


def account(cluster: ResolvedCluster) -> str:
    """The name of its account."""
    return f"{cluster.name}{ACCOUNT_SUFFIX}"


def rules(cluster: ResolvedCluster) -> list[Object]:
    """What it may do, in its own namespace. The operator must hold all of it, or it could not grant it."""
    follow, ours = ("get", "list", "watch"), (names.GROUP,)
    return [
        # Through its status, where labels and annotations can be written and the spec cannot: who may change the image of
        # a Pod is root on its Node, and who may delete one Pod may delete all.
        apiaccess.rule(("",), ("pods",), follow),
        apiaccess.rule(("",), ("pods/status",), ("patch",)),
        apiaccess.rule(ours, ("nodesets", "nodeslices"), follow),
        apiaccess.rule(ours, ("nodeslices/status",), ("patch",)),
        apiaccess.rule(ours, ("slurmclusters",), follow, only=(cluster.name,)),
        # Its report is there. The spec decides which images run as what.
        apiaccess.rule(ours, ("slurmclusters/status",), ("patch",), only=(cluster.name,)),
        apiaccess.rule(("",), ("configmaps",), follow, only=(cluster.named(clusterobjects.SLURM_CONF),)),
        # Who the users are, and whom it has given an account. It writes nothing but the note about that.
        apiaccess.rule(("",), ("configmaps",), follow, only=(cluster.named(people.AGENT),)),
        apiaccess.rule(("",), ("configmaps",), follow, only=(_users(cluster),)),
        apiaccess.rule(("",), ("configmaps",), (*follow, "patch"), only=(cluster.named(clusterobjects.USER_ACCOUNTS),)),
        # A creation has no name yet that it could be held against.
        apiaccess.rule(("coordination.k8s.io",), ("leases",), ("create",)),
        apiaccess.rule(("coordination.k8s.io",), ("leases",), ("get", "patch"), only=(cluster.named(NAME),)),
        apiaccess.rule(("events.k8s.io",), ("events",), ("create", "patch")),
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
            apiaccess.TOKEN,
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
        "startupProbe": apiaccess.http_get("/healthz", port=PORT, periodSeconds=1, failureThreshold=60),
        "readinessProbe": apiaccess.http_get("/readyz", port=PORT, periodSeconds=2),
        "livenessProbe": apiaccess.http_get("/healthz", port=PORT, periodSeconds=10, failureThreshold=6),
        **pods.resources(wanted.resources),
        "securityContext": pods.UNPRIVILEGED | {"readOnlyRootFilesystem": True},
        "volumeMounts": [
            {"name": "run", "mountPath": _RUN},
            apiaccess.TOKEN_MOUNT,
            {"name": TLS_VOLUME, "mountPath": hooks.SERVER_FOLDER, "readOnly": True},
        ],
    }


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
