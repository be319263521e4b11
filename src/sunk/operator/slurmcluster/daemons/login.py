"""Login Pods: sshd, and sackd, which brings the configuration and speaks for whoever is logged in.

Passwords are checked by the directories themselves, so a login Pod has the certificates that they want. A Secret of
somebody's that is missing keeps no login Pod from starting: keys and other directories do not need it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from sunk.model.contract import clusterobjects, people
from sunk.operator.slurmcluster.builders import capabilities, directories, hostkeys, keyfiles, pods, s6, secrets, users
from sunk.operator.slurmcluster.builders.hostkeys import SSH, SSH_PORT
from sunk.operator.slurmcluster.builders.metadata import LOGIN, SCRIPTS_HASH, metadata, selector
from sunk.operator.slurmcluster.builders.pods import Object
from sunk.operator.slurmcluster.daemons import loginservices
from sunk.operator.slurmcluster.resolve import ResolvedCluster
from sunk.operator.slurmcluster.slurmconf.conf import ETC, SLURM_USER

NAME: Final = "sshd"
_S6: Final = "login-s6"
_WAIT: Final = "SUNK_SESSION_WAIT"
_SHARED: Final = "SUNK_SHARED_ADDRESSES"
"""Tells sshd that clients cannot be told apart by their addresses (images/slurm/services/sshd/settings)."""
_SESSION_WAIT: Final = Path(__file__).with_name("session_wait.sh").read_text()
# Before sackd has its socket every command of Slurm fails.
_READY: Final = f"test -S /run/slurm/sack.socket && exec 3<> /dev/tcp/127.0.0.1/{SSH_PORT}"


def objects(cluster: ResolvedCluster) -> tuple[Object, ...]:
    if not cluster.spec.login.enabled:
        return ()
    return (*loginservices.objects(cluster), *_scripts(cluster), _stateful_set(cluster))


def _scripts(cluster: ResolvedCluster) -> tuple[Object, ...]:
    scripts = cluster.spec.login.s6
    s6.check(scripts, at="login.s6")
    meta = metadata(cluster, LOGIN, name=_S6)
    made: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": s6.data(scripts)}
    return (made,) if scripts else ()


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
            users.logins_volume(cluster, passwords=True),
            *hostkeys.volumes(cluster, people.HOST_KEYS),
            *(volume for volume, _ in _certificates(cluster)),
            *volumes,
            *_more_volumes(cluster),
        ],
        security=pods.as_root(),
        grace=wanted.session_wait_seconds + wanted.termination_grace_period_seconds,
        priority=wanted.priority_class_name,
        dns=pods.short_names(cluster),
        annotations=wanted.annotations | ({SCRIPTS_HASH: s6.fingerprint(wanted.s6)} if wanted.s6 else {}),
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
        # The preStop hook has its own part of the grace period.
        pods.STOP: pods.stop(wanted.termination_grace_period_seconds),
        "SACKD_OPTIONS": f"--conf-server {cluster.named('controller')}:{clusterobjects.SLURMCTLD_PORT}",
        **keyfiles.variables(ETC),
    }
    return {
        "name": NAME,
        **pods.image(cluster, wanted.image),
        "args": [NAME, "sackd"],
        "env": pods.environment(ours | _waits(cluster) | _shares(cluster), wanted.env),
        "ports": [{"name": SSH, "containerPort": SSH_PORT}],
        # s6 starts sshd again beside the sessions of people; Kubernetes would end those with it, so it is asked for
        # nothing but readiness.
        **pods.readiness(["/bin/bash", "-c", _READY]),
        **pods.resources(wanted.resources),
        "volumeMounts": [
            keyfiles.mount(ETC),
            pods.SHARED_MEMORY,
            users.MOUNT,
            users.LOGINS_MOUNT,
            *hostkeys.MOUNTS,
            *(mount for _, mount in _certificates(cluster)),
            *([s6.MOUNT] if wanted.s6 else ()),
            *mounts,
            *pods.plain(wanted.volume_mounts),
        ],
        **_lifecycle(cluster),
        "securityContext": capabilities.granted(
            wanted.security_context or {}, capabilities.of_sshd("sshd"), place="login"
        ),
    }


def _waits(cluster: ResolvedCluster) -> dict[str, str]:
    seconds = cluster.spec.login.session_wait_seconds
    return {_WAIT: str(seconds)} if seconds else {}


def _shares(cluster: ResolvedCluster) -> dict[str, str]:
    return {} if loginservices.shows_addresses(cluster) else {_SHARED: "yes"}


def _lifecycle(cluster: ResolvedCluster) -> dict[str, Any]:
    if not _waits(cluster):
        return {}
    return {"lifecycle": {"preStop": {"exec": {"command": ["/bin/bash", "-c", _SESSION_WAIT]}}}}


def _certificates(cluster: ResolvedCluster) -> Iterator[tuple[Object, Object]]:
    """Volume and mount of each Secret that logins need to ask a directory for a password."""
    for each in directories.enabled(cluster):
        if secret := each.directory.ldaps_cert:
            name = f"directory-{each.index}-{people.TLS}"
            volume = pods.secret(name, secret=secret, mode=keyfiles.OWNER_ONLY)
            volume["secret"]["optional"] = True
            yield volume, {"name": name, "mountPath": directories.folder(each, people.TLS), "readOnly": True}


def _more_volumes(cluster: ResolvedCluster) -> list[Object]:
    wanted = cluster.spec.login
    scripts = [s6.volume(wanted.s6, config_map=cluster.named(_S6))] if wanted.s6 else []
    return [*scripts, pods.shared_memory(wanted.shared_memory, limits=wanted.resources), *pods.plain(wanted.volumes)]
