"""slurmrestd, for programs that want it. Callers bring a token of their own."""

from typing import Final

from sunk.model.contract import clusterobjects
from sunk.operator.slurmcluster.builders import pods, users
from sunk.operator.slurmcluster.builders.metadata import CONFIG_HASH, REST, metadata, selector
from sunk.operator.slurmcluster.builders.pods import Object
from sunk.operator.slurmcluster.resolve import ResolvedCluster
from sunk.operator.slurmcluster.slurmconf.conf import ETC, restart_fingerprint

NAME: Final = "slurmrestd"
REST_PORT: Final = clusterobjects.SLURMRESTD_PORT
REST_USER: Final = 64031
"""It refuses to run as root or as slurm."""
_ALONE: Final = "disable_unshare_sysv,disable_unshare_files"
_GRACE: Final = 10


def objects(cluster: ResolvedCluster) -> tuple[Object, ...]:
    if not cluster.spec.rest.enabled:
        return ()
    spec = pods.service(cluster, REST, port=REST_PORT, name=NAME)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata(cluster, REST), "spec": spec}
    return service, _deployment(cluster)


def _deployment(cluster: ResolvedCluster) -> Object:
    wanted = cluster.spec.rest
    body = pods.Body(
        containers=[_container(cluster)],
        volumes=[
            {"name": "etc", "configMap": {"name": cluster.named(clusterobjects.SLURM_CONF)}},
            users.volume(cluster),
            *pods.plain(wanted.volumes),
        ],
        security=pods.as_user(REST_USER),
        grace=_GRACE,
        priority=wanted.priority_class_name,
        annotations={CONFIG_HASH: restart_fingerprint(cluster)},
    )
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(cluster, REST),
        "spec": {
            "replicas": wanted.replicas,
            "selector": {"matchLabels": selector(cluster, REST)},
            "template": pods.template(cluster, REST, body),
        },
    }


def _container(cluster: ResolvedCluster) -> Object:
    wanted = cluster.spec.rest
    # Without slurmdbd the half that speaks with it does not load, and slurmrestd would not start.
    served = () if cluster.spec.accounting.enabled else ("-s", "openapi/slurmctld")
    return {
        "name": NAME,
        **pods.image(cluster, wanted.image),
        "args": [NAME, "--", "-a", "rest_auth/jwt", *served, f"0.0.0.0:{REST_PORT}"],
        # It would leave the namespaces of whoever started it, which nobody may do here, and in a Pod it is alone in its own.
        "env": pods.environment({pods.STOP: pods.stop(_GRACE), "SLURMRESTD_SECURITY": _ALONE}),
        "ports": [{"name": NAME, "containerPort": REST_PORT}],
        "startupProbe": pods.tcp(REST_PORT, periodSeconds=1, failureThreshold=300),
        "readinessProbe": pods.tcp(REST_PORT, periodSeconds=5),
        "livenessProbe": pods.tcp(REST_PORT, periodSeconds=10, timeoutSeconds=10, failureThreshold=6),
        **pods.resources(wanted.resources),
        "securityContext": pods.UNPRIVILEGED,
        "volumeMounts": [
            {"name": "etc", "mountPath": ETC, "readOnly": True},
            users.MOUNT,
            *pods.plain(wanted.volume_mounts),
        ],
    }
