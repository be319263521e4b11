"""slurmdbd: between slurmctld and the database, if accounting is on and not somebody else's."""

from pathlib import Path
from typing import Final

from sunk.model import names
from sunk.model.contract import clusterobjects
from sunk.operator.slurmcluster.builders import keyfiles, pods, secrets, users
from sunk.operator.slurmcluster.builders.metadata import ACCOUNTING, CONFIG_HASH, metadata, selector
from sunk.operator.slurmcluster.builders.pods import Object
from sunk.operator.slurmcluster.daemons.database import DATABASE_PORT
from sunk.operator.slurmcluster.resolve import ResolvedCluster
from sunk.operator.slurmcluster.slurmconf.conf import ETC, JWT_KEY, KEYS, SLURM_USER, fingerprint
from sunk.operator.slurmcluster.slurmconf.lines import overridden, owned, pairs, word

NAME: Final = "slurmdbd"
FILE: Final = "slurmdbd.conf"
_TEMPLATE: Final = "/etc/sunk/slurmdbd"
_SECRET: Final = "/etc/sunk/secret"  # noqa: S105 - a folder
_AT: Final = "accounting.extraConfig"
_OURS: Final = ("authtype", "dbdhost", "dbdaddr", "dbdport", "slurmuser", "authalttypes", "authaltparameters")
_STORAGE: Final = ("storagetype", "storagehost", "storageport", "storageuser", "storagepass", "storageloc")
FORBIDDEN: Final = dict.fromkeys((*_OURS, *_STORAGE), "SUNK sets it from accounting in the values")

# slurmdbd reads its password from its file alone, which must be its own and nobody else's to read: no volume of
# Kubernetes is, so the file is written here. Slurm takes \# for # and has no word for a quote.
_START: Final = Path(__file__).with_name("slurmdbd.sh").read_text()


def objects(cluster: ResolvedCluster) -> tuple[Object, ...]:
    if not secrets.serves_accounting(cluster):
        return ()
    return (_config_map(cluster), _service(cluster), _deployment(cluster))


def slurmdbd_conf(cluster: ResolvedCluster) -> str:
    """Without the password."""
    external, (host, port) = cluster.spec.accounting.external, _database(cluster)
    name, jwt = cluster.named("accounting"), cluster.spec.rest.enabled
    settings: dict[str, str | int] = {
        "AuthType": "auth/slurm",
        "AuthAltTypes": "auth/jwt" if jwt else "",
        "AuthAltParameters": f"jwt_key={KEYS}/{JWT_KEY}" if jwt else "",
        "DbdHost": name,
        "DbdAddr": name,
        "DbdPort": clusterobjects.SLURMDBD_PORT,
        "SlurmUser": "slurm",
        "PidFile": "/run/slurmdbd/slurmdbd.pid",
        "StorageType": "accounting_storage/mysql",
        "StorageHost": host,
        "StoragePort": port,
        "StorageUser": word(external.user, at="accounting.external.user"),
        "StorageLoc": word(external.database, at="accounting.external.database"),
    }
    extra = owned(cluster.spec.accounting.extra_config, at=_AT, forbidden=FORBIDDEN)
    theirs = overridden(extra)
    ours = {key: value for key, value in settings.items() if value != "" and key.lower() not in theirs}
    return "".join(f"{line}\n" for line in (*pairs(ours), *extra))


def _database(cluster: ResolvedCluster) -> tuple[str, int]:
    external = cluster.spec.accounting.external
    if secrets.serves_database(cluster):
        return cluster.named("mysql"), DATABASE_PORT
    return word(external.host, at="accounting.external.host"), external.port


def annotations(cluster: ResolvedCluster) -> dict[str, str]:
    """Of the ConfigMap: what slurmdbd needs beside its file, so that a change of it is seen as one."""
    return {names.PASSWORD_SECRET: secrets.database(cluster)}


def _config_map(cluster: ResolvedCluster) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(cluster, ACCOUNTING, name=clusterobjects.SLURMDBD_CONF, annotations=annotations(cluster)),
        "data": {FILE: slurmdbd_conf(cluster)},
    }


def _service(cluster: ResolvedCluster) -> Object:
    spec = pods.service(cluster, ACCOUNTING, port=clusterobjects.SLURMDBD_PORT, name=NAME)
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata(cluster, ACCOUNTING), "spec": spec}


def _deployment(cluster: ResolvedCluster) -> Object:
    wanted = cluster.spec.accounting
    body = pods.Body(
        containers=[_container(cluster)],
        init=[keyfiles.container(cluster, wanted.image)],
        volumes=[*_volumes(cluster), users.volume(cluster), *pods.plain(wanted.volumes)],
        security=pods.as_user(SLURM_USER),
        grace=wanted.termination_grace_period_seconds,
        priority=wanted.priority_class_name,
        # slurmdbd looks for itself in DbdHost by this name.
        hostname=cluster.named("accounting"),
        annotations={CONFIG_HASH: fingerprint({FILE: slurmdbd_conf(cluster)})},
    )
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(cluster, ACCOUNTING),
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": selector(cluster, ACCOUNTING)},
            "template": pods.template(cluster, ACCOUNTING, body),
        },
    }


def _container(cluster: ResolvedCluster) -> Object:
    wanted = cluster.spec.accounting
    host, port = _database(cluster)
    places = {"etc": ETC, "template": _TEMPLATE, "password": _SECRET, keyfiles.NAME: KEYS}
    ours = {pods.STOP: pods.stop(wanted.termination_grace_period_seconds), "HOST": host, "PORT": str(port)}
    ours |= keyfiles.variables()
    return {
        "name": NAME,
        **pods.image(cluster, wanted.image),
        "command": ["/bin/bash", "-c", _START],
        "env": pods.environment(ours),
        "ports": [{"name": NAME, "containerPort": clusterobjects.SLURMDBD_PORT}],
        # It listens when the database has let it in. A first start makes tables, an upgrade may convert them for long.
        "startupProbe": pods.tcp(clusterobjects.SLURMDBD_PORT, periodSeconds=1, failureThreshold=3600),
        "readinessProbe": pods.tcp(clusterobjects.SLURMDBD_PORT, periodSeconds=5),
        "livenessProbe": pods.tcp(
            clusterobjects.SLURMDBD_PORT, periodSeconds=10, timeoutSeconds=10, failureThreshold=6
        ),
        **pods.resources(wanted.resources),
        "securityContext": pods.UNPRIVILEGED,
        "volumeMounts": [
            *({"name": name, "mountPath": place, "readOnly": name != "etc"} for name, place in places.items()),
            users.MOUNT,
            *pods.plain(wanted.volume_mounts),
        ],
    }


def _volumes(cluster: ResolvedCluster) -> list[Object]:
    return [
        {"name": "etc", "emptyDir": {}},
        {"name": "template", "configMap": {"name": cluster.named(clusterobjects.SLURMDBD_CONF)}},
        pods.secret("password", secret=secrets.database(cluster), items={secrets.PASSWORD: secrets.PASSWORD}),
        *keyfiles.volumes(*secrets.daemons(cluster)),
    ]
