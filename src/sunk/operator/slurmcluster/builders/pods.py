"""What all Pods of a cluster have in common."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from sunk.model import names
from sunk.model.cluster.parts import EnvironmentVariable, Image, Mount, Resources, given
from sunk.model.kubernetes.quantity import ONE, Quantity, amount, rendered
from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.builders.metadata import Component, labels, selector
from sunk.operator.slurmcluster.resolve import ResolvedCluster

REGION: Final = "topology.kubernetes.io/region"
STOP: Final = "SUNK_STOP_SECONDS"
"""How long /init takes to end everything; it has to be done before Kubernetes kills."""

NEVER: Final = 2_147_483_647
"""Failures of a probe after which the kubelet would restart a container: it takes 68 years."""

Object = dict[str, Any]

LOCKED: Final = {"key": names.LOCK, "operator": "Exists"}
"""Or the controller of a job would be evicted from the Node on which the job starts."""
SHARED_MEMORY: Final = {"name": "shared-memory", "mountPath": "/dev/shm"}  # noqa: S108 - where programs look for it
UNPRIVILEGED: Final = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


class Body(Struct, frozen=True, kw_only=True):
    """A Pod of the control plane, without what is the same for all of them."""

    containers: Sequence[Object]
    init: Sequence[Object] = ()
    volumes: Sequence[Object] = ()
    security: Mapping[str, Any]
    grace: int
    priority: str = ""
    hostname: str = ""
    dns: Mapping[str, Any] = {}
    annotations: Mapping[str, str] = {}


def template(cluster: ResolvedCluster, component: Component, body: Body) -> Object:
    """The Pod template of a component of the control plane."""
    first = body.containers[0]["name"]
    annotations = {"kubectl.kubernetes.io/default-container": first, **body.annotations}
    spec: Object = {
        "containers": list(body.containers),
        "initContainers": list(body.init),
        "volumes": list(body.volumes),
        "securityContext": dict(body.security),
        "terminationGracePeriodSeconds": body.grace,
        "priorityClassName": body.priority,
        "hostname": body.hostname,
        "dnsConfig": dict(body.dns),
        "nodeSelector": _placed(cluster),
        "tolerations": [LOCKED],
    }
    return {
        "metadata": {"labels": labels(cluster, component), "annotations": annotations},
        "spec": {word: value for word, value in spec.items() if value} | common(cluster),
    }


def common(cluster: ResolvedCluster) -> Object:
    """What every Pod has, compute Pods too."""
    secrets = [{"name": pull_secret.name} for pull_secret in cluster.spec.image_pull_secrets]
    # Services called slurm-… would give every process variables called SLURM_…, which Slurm reads.
    made: Object = {"enableServiceLinks": False, "automountServiceAccountToken": False}
    return made | ({"imagePullSecrets": secrets} if secrets else {})


def short_names(cluster: ResolvedCluster) -> Object:
    """Find nodes and logins by the names that Slurm has for them, as programs do that take one for a rendezvous.

    These domains come after Kubernetes' own, so that Services are found as ever.
    """
    space = f"{cluster.namespace}.svc.{cluster.spec.cluster_domain}"
    return {"searches": [f"{cluster.named('compute')}.{space}", f"{cluster.named('login')}.{space}"]}


def as_user(user: int, *, group: int = 0) -> Object:
    """A Pod that runs without root, and whose volumes that user may read and write."""
    return {
        "runAsUser": user,
        "runAsGroup": group or user,
        "runAsNonRoot": True,
        "fsGroup": group or user,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def as_root() -> Object:
    """A Pod of root. It has no fsGroup: the kubelet would give every file of people's claims another group and mode."""
    return {"seccompProfile": {"type": "RuntimeDefault"}}


def image(cluster: ResolvedCluster, *choices: Image) -> Object:
    """The first that says something decides, part by part; the image of the whole cluster comes last."""
    all_ = (*choices, cluster.spec.image)
    repository = next((choice.repository or choice.name for choice in all_ if choice.repository or choice.name), "")
    policy = next((choice.pull_policy for choice in all_ if choice.pull_policy), "")
    if not repository:
        raise Refusal("image.repository is empty, and a component has no image of its own. Set the image to run.")
    return {"image": repository + _version(all_, repository)} | ({"imagePullPolicy": policy} if policy else {})


def _version(choices: Sequence[Image], repository: str) -> str:
    """Digest or tag, whichever is said first. A digest is that of one repository, and is of no use in another."""
    if "@" in repository:
        return ""
    for choice in choices:
        if choice.digest and (choice.repository or choice.name or repository) == repository:
            return f"@{choice.digest}"
        if choice.tag:
            return f":{choice.tag}"
    return ""


def resources(wanted: Resources) -> Object:
    made = {"limits": given(wanted.limits), "requests": given(wanted.requests)}
    texts = {word: {name: str(size) for name, size in amounts.items()} for word, amounts in made.items() if amounts}
    return {"resources": texts} if texts else {}


def environment(ours: Mapping[str, str], variables: Iterable[EnvironmentVariable] = ()) -> list[Object]:
    made: list[Object] = [{"name": name, "value": value} for name, value in ours.items()]
    for variable in variables:
        if variable.value_from is not None:
            made.append({"name": variable.name, "valueFrom": variable.value_from})
        else:
            made.append({"name": variable.name, "value": variable.value or ""})
    return made


def stop(grace: int, *, before: int = 0) -> str:
    """Seconds for /init out of a grace period, of which a preStop hook takes some."""
    return str(max(1, grace - before - 2))


def readiness(command: Sequence[str]) -> Object:
    """Probes of a container that Kubernetes must never restart, by a command in it.

    Every second until it holds for the first time, then only now and then: a command in a container costs kubelet and
    runtime more CPU than itself, and on a node jobs have less of it.
    """
    look = {"exec": {"command": list(command)}, "timeoutSeconds": 5}
    return {
        "startupProbe": look | {"periodSeconds": 1, "failureThreshold": NEVER},
        "readinessProbe": look | {"periodSeconds": 5, "failureThreshold": 2},
    }


def claims(mounts: Sequence[Mount]) -> tuple[list[Object], list[Object]]:
    """Volumes and mounts of the claims that login and compute Pods share. A claim may be mounted at several places."""
    volumes = {
        mount.pvc: f"claim-{index}" for index, mount in enumerate({mount.pvc: mount for mount in mounts}.values())
    }
    places = []
    for mount in mounts:
        place: Object = {"name": volumes[mount.pvc], "mountPath": mount.name}
        place |= {"readOnly": True} if mount.read_only else {}
        places.append(place | ({"subPath": mount.sub_path} if mount.sub_path else {}))
    named = [{"name": name, "persistentVolumeClaim": {"claimName": claim}} for claim, name in volumes.items()]
    return named, places


def plain(objects: Iterable[Raw]) -> list[Object]:
    """What people wrote for Kubernetes, as it is."""
    return [msgspec.json.decode(raw) for raw in objects]


def secret(name: str, *, secret: str, items: Mapping[str, str] | None = None, mode: int = 0o440) -> Object:
    """A volume with a Secret that only root and the Pod's fsGroup may read: Slurm refuses keys that others can read."""
    chosen = {"items": [{"key": key, "path": path} for key, path in items.items()]} if items else {}
    return {"name": name, "secret": {"secretName": secret, "defaultMode": mode} | chosen}


def shared_memory(size: Quantity | None, *, limits: Resources) -> Object:
    """What is mounted at /dev/shm, where programs otherwise find 64 MiB.

    Its pages count as memory of the Pod. Unless told it may take half of that, which is what Linux gives it of a
    machine; without a limit the kubelet bounds it by the memory of the Node.
    """
    limit = given(limits.limits).get("memory")
    wanted = size if size is not None else limit and rendered(amount(limit) // 2 // ONE * ONE)
    return {"name": "shared-memory", "emptyDir": {"medium": "Memory"} | ({"sizeLimit": str(wanted)} if wanted else {})}


def tcp(port: int, **times: int) -> Object:
    return {"tcpSocket": {"port": port}} | times


def service(cluster: ResolvedCluster, component: Component, *, port: int, name: str) -> Object:
    """The spec of a Service inside the cluster."""
    return {"selector": selector(cluster, component), "ports": [{"name": name, "port": port, "targetPort": port}]}


def _placed(cluster: ResolvedCluster) -> dict[str, str]:
    placement = cluster.spec.node_selector
    return ({REGION: placement.region} if placement.region else {}) | placement.labels
