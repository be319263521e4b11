"""slurmctld: one Pod, whose state outlives it on a claim."""

from pathlib import Path
from typing import Any, Final

from sunk.model.contract import clusterobjects
from sunk.operator.slurmcluster.builders import keyfiles, pods, secrets, users
from sunk.operator.slurmcluster.builders.metadata import CONFIG_HASH, CONTROLLER, metadata, selector
from sunk.operator.slurmcluster.builders.pods import Object
from sunk.operator.slurmcluster.resolve import ResolvedCluster
from sunk.operator.slurmcluster.slurmconf.conf import ETC, STATE, restart_fingerprint

NAME: Final = "slurmctld"
_USAGE: Final = f"{STATE}/assoc_usage"
_NUMBERED: Final = f"{STATE}/clustername"
_ACCOUNTED: Final = f"{STATE}/sunk-accounting"
_BOOKS: Final = "SUNK_ACCOUNTING"
"""Which slurmdbd and database keep the books of this cluster."""
# With limits enforced slurmctld does not start before it has heard once from slurmdbd what they are. From then on it
# knows them from its own state, and a slurmdbd that is away holds up nothing.
_AWAIT_ACCOUNTING: Final = Path(__file__).with_name("await_accounting.sh").read_text()
# A step tells slurmctld the host of the srun that waits for it, by its name alone. One that is not found is looked for
# over and over, for seconds and with the locks held, and jobs stay completing for a minute. So the names of Pods below
# the Services of logins and nodes are found without them; the domain of this Kubernetes stands in the file.
_FIND: Final = """\
searched=$(sed -n 's/^search //p' /etc/resolv.conf 2> /dev/null)
if [ -n "$searched" ]; then
    export LOCALDOMAIN="$searched $LOGIN.${searched%% *} $COMPUTE.${searched%% *}"
fi
"""
# Two things that a slurmctld with accounting cannot get over by itself, though nothing is lost:
#
# Its number. It gives itself one, or is given one by the database, and takes no other later: a guard against two
# clusters on one state, which a claim of our own cannot have. It is forgotten where the values name other books than
# those it was given by.
#
# What associations have used. It is written down every five minutes, and at the end; 26.05 takes a state without it for
# one that was lost, and was it killed in its first minutes, it never starts again. Only then may it go on with what it
# finds. A state that was saved once is not for it to overlook.
_MEND: Final = f"""\
options=()
if [ -e {_NUMBERED} ] && [ "$(cat {_ACCOUNTED} 2> /dev/null)" != "${_BOOKS}" ]; then
    echo "accounting has moved to ${_BOOKS}: taking the cluster ID from there"
    rm {_NUMBERED}
elif [ -e {_NUMBERED} ] && [ ! -e {_USAGE} ] && [ ! -e {_USAGE}.old ]; then
    echo "the previous slurmctld ended before it first wrote {_USAGE}: starting without it"
    options=(-i)
fi
echo "${_BOOKS}" > {_ACCOUNTED}
"""
# A ping is answered by a slurmctld that hangs: its answer needs no lock. To read a node it has to take one. The node need
# not exist, and a single one costs the same however many there are.
_READY: Final = Path(__file__).with_name("slurmctld_ready.sh").read_text()
# Only no answer at all tells a hang. An error of scontrol, over a file that a person has just broken, must not cost a
# slurmctld that runs well and would not start again.
_ALIVE: Final = Path(__file__).with_name("slurmctld_alive.sh").read_text()
_LIVENESS_PERIOD: Final = 10
_GO: Final = f"""\
exec /init {NAME} -- "${{options[@]}}"
"""


def objects(cluster: ResolvedCluster) -> tuple[Object, ...]:
    return (*_claim(cluster), _service(cluster), _deployment(cluster))


def claim(cluster: ResolvedCluster) -> str:
    return cluster.spec.controller.state.existing_claim or cluster.named("controller-state")


def _claim(cluster: ResolvedCluster) -> tuple[Object, ...]:
    state = cluster.spec.controller.state
    if state.existing_claim:
        return ()
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": str(state.size)}},
    }
    # Null is for Kubernetes to fill; an empty text means: no class at all.
    spec |= {"storageClassName": state.storage_class_name} if state.storage_class_name is not None else {}
    meta = metadata(cluster, CONTROLLER, name="controller-state", owned=False)
    return ({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec},)


def _service(cluster: ResolvedCluster) -> Object:
    # With an address of its own: names of Pods that went are remembered by resolvers for up to half a minute, and
    # nodes that do not reach slurmctld for that long are down. Readiness does not count, since a slurmctld that is too
    # busy to answer a ping must not be cut off from the answers it waits for.
    spec = pods.service(cluster, CONTROLLER, port=clusterobjects.SLURMCTLD_PORT, name=NAME) | {
        "publishNotReadyAddresses": True
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata(cluster, CONTROLLER), "spec": spec}


def _deployment(cluster: ResolvedCluster) -> Object:
    wanted = cluster.spec.controller
    body = pods.Body(
        containers=[_container(cluster), *pods.plain(wanted.containers)],
        init=[keyfiles.container(cluster, wanted.image), *_init(cluster)],
        volumes=[
            _etc(cluster),
            _state(cluster),
            *keyfiles.volumes(*secrets.daemons(cluster)),
            users.volume(cluster),
            *pods.plain(wanted.volumes),
        ],
        security=pods.as_user(wanted.security_context.run_as_user, group=wanted.security_context.run_as_group),
        grace=wanted.termination_grace_period_seconds,
        priority=wanted.priority_class_name,
        # slurmctld looks for itself in SlurmctldHost by this name.
        hostname=cluster.named("controller"),
        annotations={**wanted.annotations, CONFIG_HASH: restart_fingerprint(cluster)},
    )
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(cluster, CONTROLLER),
        "spec": {
            "replicas": wanted.replicas,
            # Two at once would write to one state.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": selector(cluster, CONTROLLER)},
            "template": pods.template(cluster, CONTROLLER, body),
        },
    }


def _container(cluster: ResolvedCluster) -> Object:
    wanted = cluster.spec.controller
    ready, alive = ({"exec": {"command": ["/bin/bash", "-c", text]}} for text in (_READY, _ALIVE))
    patience = -(-wanted.hang_seconds // _LIVENESS_PERIOD)
    return {
        "name": NAME,
        **pods.image(cluster, wanted.image),
        **_command_and_environment(cluster),
        "ports": [{"name": NAME, "containerPort": clusterobjects.SLURMCTLD_PORT}],
        # Half an hour: it may have tens of thousands of jobs to read.
        "startupProbe": ready | {"periodSeconds": 1, "timeoutSeconds": 10, "failureThreshold": 1800},
        "readinessProbe": ready | {"periodSeconds": 5, "timeoutSeconds": 10},
        # A slurmctld that is busy answers late, and killing it would only add to its work: it has minutes.
        "livenessProbe": alive
        | {"periodSeconds": _LIVENESS_PERIOD, "timeoutSeconds": 10, "failureThreshold": patience},
        **pods.resources(wanted.resources),
        "securityContext": pods.UNPRIVILEGED,
        "volumeMounts": [
            {"name": "etc", "mountPath": ETC, "readOnly": True},
            {"name": "state", "mountPath": STATE},
            keyfiles.mount(),
            users.MOUNT,
            *pods.plain(wanted.volume_mounts),
        ],
    }


def _command_and_environment(cluster: ResolvedCluster) -> Object:
    variables = {
        pods.STOP: pods.stop(cluster.spec.controller.termination_grace_period_seconds),
        "LOGIN": cluster.named("login"),
        "COMPUTE": cluster.named("compute"),
        **keyfiles.variables(),
    }
    if not cluster.spec.accounting.enabled:
        return {"command": ["/bin/bash", "-c", _FIND + _GO], "env": pods.environment(variables)}
    command = ["/bin/bash", "-c", _FIND + _MEND + _GO]
    return {"command": command, "env": pods.environment(variables | {_BOOKS: _books(cluster)})}


def _books(cluster: ResolvedCluster) -> str:
    accounting = cluster.spec.accounting
    external = accounting.external
    if accounting.remote_host:
        return f"{accounting.remote_host}:{accounting.remote_port}"
    return f"{external.host}:{external.port}/{external.database}" if external.host else cluster.named("mysql")


def _init(cluster: ResolvedCluster) -> list[Object]:
    accounting = cluster.spec.accounting
    if not (accounting.enabled and accounting.enforce):
        return []
    host = accounting.remote_host or cluster.named("accounting")
    port = accounting.remote_port if accounting.remote_host else clusterobjects.SLURMDBD_PORT
    made: Object = {
        "name": "await-accounting",
        **pods.image(cluster, cluster.spec.controller.image),
        "command": ["/bin/bash", "-c", _AWAIT_ACCOUNTING],
        "env": pods.environment({"HOST": host, "PORT": str(port), _BOOKS: _books(cluster)}),
        "securityContext": pods.UNPRIVILEGED,
        "volumeMounts": [{"name": "state", "mountPath": STATE, "readOnly": True}],
    }
    return [made]


def _etc(cluster: ResolvedCluster) -> Object:
    return {"name": "etc", "configMap": {"name": cluster.named(clusterobjects.SLURM_CONF)}}


def _state(cluster: ResolvedCluster) -> Object:
    return {"name": "state", "persistentVolumeClaim": {"claimName": claim(cluster)}}
