"""Compute nodes: one NodeSet for each enabled definition."""

from typing import Any, Final

from sunk.model import names
from sunk.model.contract import clusterobjects, drains, hooks, people
from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.builders import hostkeys, keyfiles, pods, secrets, users
from sunk.operator.slurmcluster.builders.metadata import COMPUTE, SCRIPTS_HASH, labels, metadata
from sunk.operator.slurmcluster.builders.pods import Object
from sunk.operator.slurmcluster.compute import capabilities, scripts
from sunk.operator.slurmcluster.compute.scripts import POD_NAME
from sunk.operator.slurmcluster.resolve import NodeDefinition, ResolvedCluster
from sunk.operator.slurmcluster.slurmconf.conf import ETC
from sunk.operator.slurmcluster.slurmconf.gres import gres
from sunk.operator.slurmcluster.slurmconf.lines import pairs, word
from sunk.operator.slurmcluster.slurmconf.shares import resources, share, shared

CPUS: Final = "SUNK_CPUS"
MEMORY: Final = "SUNK_MEMORY"
SSHD: Final = "sshd"
# As the kernel writes a socket that listens on the port of slurmd, whatever the address.
_LISTENS: Final = (
    "grep",
    "-qsi",
    f":{clusterobjects.SLURMD_PORT:04X} [0-9A-F]*:0000 0A ",
    "/proc/net/tcp",
    "/proc/net/tcp6",
)
_TOKEN_SECONDS: Final = 3607
"""The kubelet renews it when four fifths have passed."""
_TELLING: Final = 5
# Slurm may be away, and the Pod goes all the same.
_TELL: Final = f"timeout {_TELLING} {scripts.LEAVE} || true"


def objects(cluster: ResolvedCluster) -> tuple[Object, ...]:
    return (
        *scripts.objects(cluster),
        _service(cluster),
        *(node_set(cluster, definition) for definition in cluster.definitions),
    )


def _service(cluster: ResolvedCluster) -> Object:
    """Gives nodes a name that slurmctld can look up; nobody connects by it, so that unready ones have one too."""
    spec = pods.service(cluster, COMPUTE, port=clusterobjects.SLURMD_PORT, name=names.SLURMD)
    headless = {"clusterIP": "None", "publishNotReadyAddresses": True}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata(cluster, COMPUTE), "spec": spec | headless}


def node_set(cluster: ResolvedCluster, definition: NodeDefinition) -> Object:
    budget = definition.max_unavailable
    spec: Object = {
        "template": template(cluster, definition),
        "cluster": cluster.name,
        "podNamePrefix": cluster.prefix(definition),
        "naming": definition.naming,
        "sharing": "open" if shared(definition) else "slurmOnly",
        "features": {
            "staticFeatures": list(cluster.features(definition)),
            "dynamicFeatures": {
                key: {"prefix": feature.prefix} for key, feature in definition.dynamic_features.items()
            },
        },
        "updateStrategy": {
            "type": definition.update_strategy,
            "rollingUpdate": {"maxUnavailable": cluster.spec.compute.max_unavailable if budget is None else budget},
        },
    }
    return {
        "apiVersion": names.API_VERSION,
        "kind": "NodeSet",
        "metadata": metadata(cluster, COMPUTE, name=definition.name),
        "spec": spec | ({} if definition.replicas is None else {"replicas": definition.replicas}),
    }


def template(cluster: ResolvedCluster, definition: NodeDefinition) -> Object:
    """The Pod of a node. Which Node it runs on, and that it stays there, is the NodeSet's to add."""
    wanted = cluster.spec.compute
    claimed, _ = pods.claims(wanted.mounts)
    size = wanted.shared_memory if definition.shared_memory is None else definition.shared_memory
    # An empty text is a choice: no class.
    priority = definition.priority_class_name
    spec: Object = {
        "containers": [_slurmd(cluster, definition), *definition.containers],
        "volumes": [
            pods.secret("key", secret=secrets.auth(cluster), mode=keyfiles.OWNER_ONLY),
            pods.shared_memory(size, limits=definition.resources),
            users.volume(cluster),
            *(_ssh_volumes(cluster) if wanted.ssh.enabled else ()),
            *scripts.volumes(cluster),
            *_hooks(cluster),
            *claimed,
            *pods.plain(wanted.volumes),
            *definition.volumes,
        ],
        "securityContext": pods.as_root(),
        "affinity": definition.affinity,
        "tolerations": list(definition.tolerations),
        "priorityClassName": wanted.priority_class_name if priority is None else priority,
        "terminationGracePeriodSeconds": definition.termination_grace_period_seconds,
        "subdomain": cluster.named("compute"),
        "dnsConfig": pods.short_names(cluster),
        "hostNetwork": definition.host_network,
        "dnsPolicy": "ClusterFirstWithHostNet" if definition.host_network else "",
    }
    annotations = definition.annotations | {
        SCRIPTS_HASH: scripts.started(cluster),
        names.SHAPE: shape(cluster, definition),
    }
    return {
        "metadata": {
            "labels": definition.labels | labels(cluster, COMPUTE),
            "annotations": {"kubectl.kubernetes.io/default-container": names.SLURMD} | annotations,
        },
        "spec": {word: value for word, value in spec.items() if value} | pods.common(cluster),
    }


def _ssh_volumes(cluster: ResolvedCluster) -> list[Object]:
    return [users.logins_volume(cluster, passwords=False), *hostkeys.volumes(cluster, people.NODE_KEYS)]


def _hooks(cluster: ResolvedCluster) -> list[Object]:
    """What a prolog shows the hook API, and believes it by. Root's alone: with the token jobs could speak for the node."""
    if not cluster.spec.syncer.enabled:
        return []
    token = {
        "path": hooks.TOKEN,
        "audience": hooks.audience(cluster.namespace, cluster.name),
        "expirationSeconds": _TOKEN_SECONDS,
    }
    bundle = {
        "name": cluster.named(clusterobjects.HOOKS_CA),
        "items": [{"key": hooks.CA, "path": hooks.CA}],
    }
    sources: list[Object] = [{"serviceAccountToken": token}, {"configMap": bundle}]
    return [{"name": "hooks", "projected": {"defaultMode": keyfiles.OWNER_ONLY, "sources": sources}}]


def _slurmd(cluster: ResolvedCluster, definition: NodeDefinition) -> Object:
    wanted = cluster.spec.compute
    _, mounts = pods.claims(wanted.mounts)
    security = capabilities.security_context(cluster, definition)
    return {
        "name": names.SLURMD,
        **pods.image(cluster, definition.image, wanted.image),
        "args": _arguments(cluster, definition),
        "env": _environment(definition),
        "ports": _ports(cluster),
        # No liveness: whatever ails slurmd, its jobs live beside it and would die with the container. Readiness asks
        # nobody but slurmd, or a slurmctld that restarts would make every node unready. It looks for the socket and does
        # not connect: slurmd takes each connection for a message, and two lines of its log would say that none came.
        **pods.readiness(list(_LISTENS)),
        "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", _TELL]}}},
        "resources": resources(definition, reserved=wanted.reserved_memory),
        "volumeMounts": [
            {"name": "key", "mountPath": ETC, "readOnly": True},
            pods.SHARED_MEMORY,
            users.MOUNT,
            *((users.LOGINS_MOUNT, *hostkeys.MOUNTS) if wanted.ssh.enabled else ()),
            *scripts.mounts(cluster),
            *({"name": each["name"], "mountPath": hooks.FOLDER, "readOnly": True} for each in _hooks(cluster)),
            *mounts,
            *pods.plain(wanted.volume_mounts),
            *definition.volume_mounts,
        ],
    } | ({"securityContext": security} if security else {})


def _ports(cluster: ResolvedCluster) -> list[Object]:
    ssh = {"name": hostkeys.SSH, "containerPort": hostkeys.SSH_PORT}
    slurmd = {"name": names.SLURMD, "containerPort": clusterobjects.SLURMD_PORT}
    return [slurmd, ssh] if cluster.spec.compute.ssh.enabled else [slurmd]


def _arguments(cluster: ResolvedCluster, definition: NodeDefinition) -> list[str]:
    server = f"{cluster.named('controller')}:{clusterobjects.SLURMCTLD_PORT}"
    introduction = node_line(cluster, definition)
    # sshd finds out by itself that it runs beside slurmd, and lets only those in who have a job here.
    beside = [SSHD] if cluster.spec.compute.ssh.enabled else []
    return [names.SLURMD, *beside, "--", "-Z", "-N", f"$({POD_NAME})", "--conf-server", server, "--conf", introduction]


def node_line(cluster: ResolvedCluster, definition: NodeDefinition) -> str:
    """How a node introduces itself to Slurm. What is not known here Kubernetes fills in, from the Node."""
    slurm_share = share(definition, reserved=cluster.spec.compute.reserved_memory)
    features = ",".join(word(feature, at=f"{definition.place}.features") for feature in cluster.features(definition))
    settings: dict[str, str | int] = {
        "CPUs": slurm_share.cpus or f"$({CPUS})",
        "RealMemory": slurm_share.memory or f"$({MEMORY})",
    }
    if slurm_share.memory is None and slurm_share.reserve:
        settings["MemSpecLimit"] = slurm_share.reserve
    settings |= {"TmpDisk": cluster.spec.compute.tmp_disk} if cluster.spec.compute.tmp_disk else {}
    settings |= {"Gres": gres(definition)} if gres(definition) else {}
    # Without a syncer nobody would lift it.
    born = (drains.BORN_DRAINED,) if cluster.spec.syncer.enabled else ()
    return " ".join((*pairs(settings | {"Feature": features}), *born))


def shape(cluster: ResolvedCluster, definition: NodeDefinition) -> str:
    """What of that line decides whether Slurm's record of an older Pod will do, as far as it is known here."""
    slurm_share = share(definition, reserved=cluster.spec.compute.reserved_memory)
    known = {"CPUs": slurm_share.cpus, "RealMemory": slurm_share.memory, "Gres": gres(definition) or ""}
    return " ".join(f"{key}={value}" for key, value in known.items() if value is not None)


def _environment(definition: NodeDefinition) -> list[dict[str, Any]]:
    for variable in definition.env:
        if variable.name == POD_NAME or variable.name.startswith("SUNK_"):
            raise Refusal(f"{definition.place}.env: {variable.name} is set by SUNK itself. Choose another name.")
    grace = definition.termination_grace_period_seconds
    made: list[dict[str, Any]] = [
        {"name": POD_NAME, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        *(_of_node(CPUS, "limits.cpu", divisor="1"), _of_node(MEMORY, "limits.memory", divisor="1Mi")),
    ]
    ours = {pods.STOP: pods.stop(grace, before=_TELLING)} | keyfiles.variables(ETC)
    if definition.env:
        ours[scripts.JOB_ENV] = " ".join(variable.name for variable in definition.env)
    return [*made, *pods.environment(ours, definition.env)]


def _of_node(name: str, resource: str, *, divisor: str) -> dict[str, Any]:
    """What the container may use: its limit, or where there is none what the Node can give."""
    source = {"containerName": names.SLURMD, "resource": resource, "divisor": divisor}
    return {"name": name, "valueFrom": {"resourceFieldRef": source}}
