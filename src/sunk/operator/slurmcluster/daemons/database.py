"""The database behind slurmdbd: a MariaDB with a claim, unless somebody else runs one."""

from typing import Any, Final

from sunk.operator.slurmcluster.builders import pods, secrets
from sunk.operator.slurmcluster.builders.metadata import DATABASE, labels, metadata, selector
from sunk.operator.slurmcluster.builders.pods import Object
from sunk.operator.slurmcluster.resolve import ResolvedCluster

NAME: Final = "mysql"
DATABASE_PORT: Final = 3306
DATABASE_USER: Final = 64032
_DATA: Final = "/var/lib/mysql"
_SECRET: Final = "/etc/sunk/secret"  # noqa: S105 - a folder


def objects(cluster: ResolvedCluster) -> tuple[Object, ...]:
    if not secrets.serves_database(cluster):
        return ()
    spec = pods.service(cluster, DATABASE, port=DATABASE_PORT, name=NAME)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata(cluster, DATABASE), "spec": spec}
    return service, _stateful_set(cluster)


def _stateful_set(cluster: ResolvedCluster) -> Object:
    wanted = cluster.spec.mysql
    existing = wanted.storage.existing_claim
    volumes = [pods.secret("password", secret=secrets.database(cluster), items={secrets.PASSWORD: secrets.PASSWORD})]
    if existing:
        volumes.append({"name": "data", "persistentVolumeClaim": {"claimName": existing}})
    body = pods.Body(
        containers=[_container(cluster)],
        volumes=volumes,
        security=pods.as_user(DATABASE_USER),
        grace=wanted.termination_grace_period_seconds,
        priority=wanted.priority_class_name,
    )
    spec: Object = {
        "replicas": 1,
        "serviceName": cluster.named("mysql"),
        "selector": {"matchLabels": selector(cluster, DATABASE)},
        "template": pods.template(cluster, DATABASE, body),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata(cluster, DATABASE),
        "spec": spec if existing else spec | {"volumeClaimTemplates": [_claim(cluster)]},
    }


def _claim(cluster: ResolvedCluster) -> Object:
    storage = cluster.spec.mysql.storage
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": str(storage.size)}},
    }
    spec |= {"storageClassName": storage.storage_class_name} if storage.storage_class_name is not None else {}
    return {"metadata": {"name": "data", "labels": labels(cluster, DATABASE)}, "spec": spec}


def _container(cluster: ResolvedCluster) -> Object:
    wanted, external = cluster.spec.mysql, cluster.spec.accounting.external
    ours = {
        "MARIADB_DATABASE": external.database,
        "MARIADB_USER": external.user,
        "MARIADB_PASSWORD_FILE": f"{_SECRET}/{secrets.PASSWORD}",
    }
    # Over its socket, as the user it runs as: this asks for no password.
    alive = {"exec": {"command": ["mariadb", "--execute=SELECT 1"]}}
    return {
        "name": NAME,
        **pods.image(cluster, wanted.image),
        "env": pods.environment(ours),
        "ports": [{"name": NAME, "containerPort": DATABASE_PORT}],
        # After a crash it may have a long journal to go through.
        "startupProbe": alive | {"periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 3600},
        "readinessProbe": alive | {"periodSeconds": 5, "timeoutSeconds": 5},
        "livenessProbe": pods.tcp(DATABASE_PORT, periodSeconds=10, timeoutSeconds=10, failureThreshold=6),
        **pods.resources(wanted.resources),
        "securityContext": pods.UNPRIVILEGED,
        "volumeMounts": [
            {"name": "data", "mountPath": _DATA},
            {"name": "password", "mountPath": _SECRET, "readOnly": True},
        ],
    }
