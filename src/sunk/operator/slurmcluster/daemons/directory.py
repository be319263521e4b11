"""The directory agent: a Pod of ours that reads the directories, and the ConfigMaps in which it publishes users.

It sees the passwords of directories, so it is alone in its Pod, listens on nothing but its probes, and may write to nothing
but these ConfigMaps. They are made empty here and without `data`, so that applying them again leaves alone what the agent
has written.

Nothing in the Pod changes with the settings: they are a file, which it reads again. Another Secret is another volume, and
that takes another Pod. Until it is there everybody has the users of before. A Secret that does not exist keeps no agent from
starting, since its other directories do not need it; the agent says which value names it.
"""

from collections.abc import Iterator
from typing import Final

from sunk.model.contract import clusterobjects, people
from sunk.operator.slurmcluster.builders import directories, pods, users
from sunk.operator.slurmcluster.builders.directories import EnabledDirectory
from sunk.operator.slurmcluster.builders.metadata import CONFIGURATION, DIRECTORY, metadata, selector
from sunk.operator.slurmcluster.builders.pods import Object
from sunk.operator.slurmcluster.daemons import apiaccess
from sunk.operator.slurmcluster.resolve import ResolvedCluster

NAME: Final = people.AGENT
PORT: Final = clusterobjects.HEALTH_PORT
USER: Final = 65532
"""That of the image."""
_GRACE: Final = 30
_TEMPORARY: Final = "/tmp"  # noqa: S108 - where programs look for it


def objects(cluster: ResolvedCluster) -> tuple[Object, ...]:
    if not directories.enabled(cluster):
        return ()
    account = apiaccess.objects(cluster, DIRECTORY, account=cluster.named(NAME), rules=rules(cluster))
    return (*_published(cluster), *account, _deployment(cluster))


def rules(cluster: ResolvedCluster) -> list[Object]:
    """What it may do, in its own namespace. The operator must hold all of it, or it could not grant it."""
    published = (cluster.named(NAME), *_logins(cluster))
    return [
        apiaccess.rule(("",), ("configmaps",), ("get", "patch"), only=published),
        apiaccess.rule(("",), ("configmaps",), ("get",), only=(users.of_values(cluster),)),
    ]


def _logins(cluster: ResolvedCluster) -> tuple[str, ...]:
    return tuple(cluster.named(f"{people.LOGINS}-{number}") for number in range(people.PARTS))


def _published(cluster: ResolvedCluster) -> Iterator[Object]:
    # The operator follows the first by its component, for its report, and not the others, which are large.
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(cluster, DIRECTORY)}
    for number in range(people.PARTS):
        meta = metadata(cluster, CONFIGURATION, name=f"{people.LOGINS}-{number}")
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


def _deployment(cluster: ResolvedCluster) -> Object:
    settings = {
        "name": "settings",
        "configMap": {
            "name": cluster.named(people.SETTINGS),
            "items": [{"key": people.SETTINGS_FILE, "path": people.SETTINGS_FILE}],
        },
    }
    body = pods.Body(
        containers=[_container(cluster)],
        volumes=[
            settings,
            apiaccess.TOKEN,
            {"name": "temporary", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
            *(volume for volume, _ in _secrets(cluster)),
        ],
        security=pods.as_user(USER),
        grace=_GRACE,
        priority=cluster.spec.directory_service.priority_class_name,
    )
    template = pods.template(cluster, DIRECTORY, body)
    template["spec"]["serviceAccountName"] = cluster.named(NAME)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(cluster, DIRECTORY),
        "spec": {
            "replicas": 1,
            # Nobody waits for it, and two would write in turns what each of them has read.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": selector(cluster, DIRECTORY)},
            "template": template,
        },
    }


def _container(cluster: ResolvedCluster) -> Object:
    wanted = cluster.spec.directory_service
    return {
        "name": NAME,
        **pods.image(cluster, wanted.image, cluster.spec.sunk_image),
        "args": ["directory", *arguments(cluster)],
        "ports": [{"name": "metrics", "containerPort": PORT}],
        "startupProbe": apiaccess.http_get("/healthz", port=PORT, periodSeconds=1, failureThreshold=60),
        "readinessProbe": apiaccess.http_get("/readyz", port=PORT, periodSeconds=2),
        "livenessProbe": apiaccess.http_get("/healthz", port=PORT, periodSeconds=10, failureThreshold=6),
        **pods.resources(wanted.resources),
        "securityContext": pods.UNPRIVILEGED | {"readOnlyRootFilesystem": True},
        "volumeMounts": [
            {"name": "settings", "mountPath": people.SETTINGS_FOLDER, "readOnly": True},
            apiaccess.TOKEN_MOUNT,
            {"name": "temporary", "mountPath": _TEMPORARY},
            *(mount for _, mount in _secrets(cluster)),
        ],
    }


def arguments(cluster: ResolvedCluster) -> list[str]:
    options = {"cluster": cluster.name, "namespace": cluster.namespace, "port": PORT}
    return [f"--{name}={value}" for name, value in options.items()]


def _secrets(cluster: ResolvedCluster) -> Iterator[tuple[Object, Object]]:
    """Volume and mount of each Secret that a directory has."""
    for each in directories.enabled(cluster):
        for what, secret in _named(each).items():
            if secret:
                name = f"directory-{each.index}-{what}"
                items = {people.PASSWORD: people.PASSWORD} if what == people.PASSWORD else None
                volume = pods.secret(name, secret=secret, items=items)
                volume["secret"]["optional"] = True
                yield volume, {"name": name, "mountPath": directories.folder(each, what), "readOnly": True}


def _named(each: EnabledDirectory) -> dict[str, str | None]:
    user = each.directory.user
    return {
        people.SNIPPETS: user.existing_secret,
        people.PASSWORD: user.password_secret,
        people.TLS: each.directory.ldaps_cert,
    }
