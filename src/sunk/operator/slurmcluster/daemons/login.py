"""Login Pods: sshd, and sackd, which brings the configuration and speaks for whoever is logged in."""

from typing import Final

from sunk.model.contract import clusterobjects
from sunk.operator.slurmcluster.builders import keyfiles, pods, secrets, users
from sunk.operator.slurmcluster.builders.metadata import LOGIN, metadata, selector
from sunk.operator.slurmcluster.builders.pods import Object
from sunk.operator.slurmcluster.resolve import ResolvedCluster
from sunk.operator.slurmcluster.slurmconf.conf import ETC, SLURM_USER

NAME: Final = "sshd"
SSH_PORT: Final = 22
# Before sackd has its socket every command of Slurm fails.
_READY: Final = f"test -S /run/slurm/sack.socket && exec 3<> /dev/tcp/127.0.0.1/{SSH_PORT}"
PUBLIC: Final = {"service.beta.kubernetes.io/coreweave-load-balancer-type": "public"}


def objects(cluster: ResolvedCluster) -> tuple[Object, ...]:
    return (_service(cluster), _stateful_set(cluster)) if cluster.spec.login.enabled else ()


def _service(cluster: ResolvedCluster) -> Object:
    wanted = cluster.spec.login.service
    annotations = (PUBLIC if wanted.expose_public_ip else {}) | wanted.annotations
    spec = pods.service(cluster, LOGIN, port=SSH_PORT, name="ssh") | {"type": wanted.type}
    # Only Services that are reached from outside have it.
    spec |= {"externalTrafficPolicy": wanted.external_traffic_policy} if wanted.type != "ClusterIP" else {}
    meta = metadata(cluster, LOGIN, annotations=annotations)
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def _stateful_set(cluster: ResolvedCluster) -> Object:
    wanted = cluster.spec.login
    volumes, _ = pods.claims(cluster.spec.compute.mounts)
    body = pods.Body(
        containers=[_container(cluster), *pods.plain(wanted.containers)],
        # sackd drops root and is the one that reads the key.
        init=[keyfiles.container(cluster, wanted.image, owner=SLURM_USER)],
        volumes=[
            *keyfiles.volumes(secrets.auth(cluster), group=False),
            users.volume(cluster),
            *volumes,
            *_more_volumes(cluster),
        ],
        security=pods.as_root(),
        grace=wanted.termination_grace_period_seconds,
        priority=wanted.priority_class_name,
        dns=pods.short_names(cluster),
        annotations=wanted.annotations,
    )
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata(cluster, LOGIN),
        "spec": {
            "replicas": wanted.replicas,
            "serviceName": cluster.named("login"),
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": wanted.update_strategy},
            "selector": {"matchLabels": selector(cluster, LOGIN)},
            "template": pods.template(cluster, LOGIN, body),
        },
    }


def _container(cluster: ResolvedCluster) -> Object:
    wanted = cluster.spec.login
    _, mounts = pods.claims(cluster.spec.compute.mounts)
    ours = {
        pods.STOP: pods.stop(wanted.termination_grace_period_seconds),
        "SACKD_OPTIONS": f"--conf-server {cluster.named('controller')}:{clusterobjects.SLURMCTLD_PORT}",
        **keyfiles.variables(ETC),
    }
    return {
        "name": NAME,
        **pods.image(cluster, wanted.image),
        "args": [NAME, "sackd"],
        "env": pods.environment(ours, wanted.env),
        "ports": [{"name": "ssh", "containerPort": SSH_PORT}],
        # s6 starts sshd again beside the sessions of people; Kubernetes would end those with it, so it is asked for
        # nothing but readiness.
        **pods.readiness(["/bin/bash", "-c", _READY]),
        **pods.resources(wanted.resources),
        "volumeMounts": [
            keyfiles.mount(ETC),
            pods.SHARED_MEMORY,
            users.MOUNT,
            *mounts,
            *pods.plain(wanted.volume_mounts),
        ],
    } | ({"securityContext": wanted.security_context} if wanted.security_context else {})


def _more_volumes(cluster: ResolvedCluster) -> list[Object]:
    wanted = cluster.spec.login
    return [pods.shared_memory(wanted.shared_memory, limits=wanted.resources), *pods.plain(wanted.volumes)]
