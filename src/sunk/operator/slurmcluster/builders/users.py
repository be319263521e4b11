"""Users and groups that every Pod of Slurm knows, beside those of its image.

slurmctld asks for users by number (accounts, reservations, groups of a partition), slurmdbd by name, nodes for homes and
groups, logins for all of it. So one folder is in all of their Pods, where libnss-extrausers of the image reads it. What is in
it comes from three ConfigMaps: the users of the values, what the directory agent has found, and settings. Of two that have
the same file the later one counts (that is how a kubelet fills a projected volume), so the agent, which adds the users of
the values to its own, replaces `passwd` and `group` once it has read the directories.

All of it is mounted whether there are users and directories or not: whoever adds the first must not have to replace every
node.
"""

from collections.abc import Iterator
from typing import Final

from sunk.model.contract import people, posix
from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.builders import directories
from sunk.operator.slurmcluster.builders.metadata import COMPUTE, CONFIGURATION, metadata
from sunk.operator.slurmcluster.builders.pods import Object
from sunk.operator.slurmcluster.resolve import ResolvedCluster

MOUNT: Final = {"name": "users", "mountPath": people.USERS_FOLDER, "readOnly": True}
LOGINS_MOUNT: Final = {"name": "logins", "mountPath": people.LOGINS_FOLDER, "readOnly": True}
KEYS: Final = "authorized_keys"
_FIELDS: Final = {"passwd": 7, "group": 4}
_TAKEN: Final = {"passwd": posix.USERS, "group": posix.GROUPS}
_LOCKED: Final = frozenset({"x", "*", "!", ""})


def volume(cluster: ResolvedCluster) -> Object:
    """What all Pods of Slurm have. The report of the agent and its own notes are left out: they are not for everybody."""
    sources = [
        {"configMap": {"name": of_values(cluster)}},
        _chosen(cluster, people.AGENT, people.PASSWD, people.GROUP, people.SHADOW, optional=True),
        _chosen(cluster, people.SETTINGS, people.SUDOERS, people.OPTIONS),
    ]
    return {"name": MOUNT["name"], "projected": {"sources": sources}}


def logins_volume(cluster: ResolvedCluster, *, passwords: bool) -> Object:
    """What sshd needs besides. How to ask for a password is for login Pods alone: compute nodes take keys only."""
    parts = (cluster.named(f"{people.LOGINS}-{number}") for number in range(people.PARTS))
    sources: list[Object] = [{"configMap": {"name": name, "optional": True}} for name in parts]
    if passwords:
        sources.append(_chosen(cluster, people.SETTINGS, people.PASSWORDS))
    return {"name": LOGINS_MOUNT["name"], "projected": {"sources": sources}}


def of_values(cluster: ResolvedCluster) -> str:
    """The name of the ConfigMap with the users of the values, ours or somebody else's."""
    return cluster.spec.users.config_map or cluster.named(people.USERS)


def _chosen(cluster: ResolvedCluster, name: str, *keys: str, optional: bool = False) -> Object:
    items = [{"key": key, "path": key} for key in keys]
    return {"configMap": {"name": cluster.named(name), "items": items} | ({"optional": True} if optional else {})}


def objects(cluster: ResolvedCluster) -> tuple[Object, ...]:
    return (*_users(cluster), _settings(cluster))


def _settings(cluster: ResolvedCluster) -> Object:
    data = {
        people.SETTINGS_FILE: directories.settings(cluster),
        people.SUDOERS: directories.sudoers(cluster),
        people.PASSWORDS: directories.passwords(cluster),
        people.OPTIONS: options(cluster),
    }
    meta = metadata(cluster, CONFIGURATION, name=people.SETTINGS)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def options(cluster: ResolvedCluster) -> str:
    """What scripts of the image go by."""
    service = f"{cluster.named(COMPUTE.name)}.{cluster.namespace}.svc.{cluster.spec.cluster_domain}"
    said = {"create_homes": "yes" if cluster.spec.login.create_homes else "no", "compute_service": service}
    return "".join(f"{key}={value}\n" for key, value in said.items())


def _users(cluster: ResolvedCluster) -> tuple[Object, ...]:
    wanted = cluster.spec.users
    if wanted.config_map:
        return ()
    data = {people.PASSWD: _file(people.PASSWD, wanted.passwd), people.GROUP: _file(people.GROUP, wanted.group)}
    for user in wanted.authorized_keys:
        if not posix.NAME.fullmatch(user):
            raise Refusal(f"users.authorizedKeys: {user!r} is not a valid user name.")
        if user in posix.USERS:
            raise Refusal(f"users.authorizedKeys: {user} is a user of the images, who cannot log in. Use another name.")
    data |= {f"{KEYS}.{user}": text for user, text in sorted(wanted.authorized_keys.items())}
    meta = metadata(cluster, CONFIGURATION, name=people.USERS)
    return ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data},)


def _file(kind: str, text: str) -> str:
    """As people wrote it, with a password that is no password: where it says x, PAM would look for a shadow entry."""
    lines = list(_checked(kind, text))
    names = [fields[0] for fields in lines]
    if twice := {name for name in names if names.count(name) > 1}:
        raise Refusal(f"users.{kind}: {min(twice)} appears twice. Remove one.")
    return "".join(f"{':'.join((fields[0], '*', *fields[2:]))}\n" for fields in lines)


def _checked(kind: str, text: str) -> Iterator[list[str]]:
    for line in filter(None, map(str.strip, text.splitlines())):
        fields = line.split(":")
        if len(fields) != _FIELDS[kind]:
            raise Refusal(
                f"users.{kind}: {line!r} has {len(fields)} fields separated by colons instead of {_FIELDS[kind]}."
            )
        if not posix.NAME.fullmatch(fields[0]):
            raise Refusal(
                f"users.{kind}: {fields[0]!r} is not a valid name: use lowercase letters, digits, dashes, dots and underscores."
            )
        if fields[0] in _TAKEN[kind]:
            what = "user" if kind == people.PASSWD else "group"
            raise Refusal(f"users.{kind}: {fields[0]} is a {what} of the images. Use another name.")
        if fields[1] not in _LOCKED:
            raise Refusal(f"users.{kind}: {fields[0]} has a password, but a ConfigMap is not secret. Write * instead.")
        numbers = fields[2:4] if kind == "passwd" else fields[2:3]
        if not all(map(_is_free, numbers)):
            raise Refusal(
                f"users.{kind}: the numbers of {fields[0]} are {' and '.join(numbers)}. Use {posix.LEAST} or more, and no number that the images use themselves."
            )
        yield fields


def _is_free(text: str) -> bool:
    number = posix.number(text)
    return number is not None and posix.is_free(number)
