"""Users and groups that every Pod of Slurm knows, beside those of its image.

slurmctld asks for users by number (accounts, reservations, groups of a partition), slurmdbd by name, nodes for homes and
groups, logins for all of it. So one ConfigMap is in all of their Pods, where libnss-extrausers of the image reads it. It is
always there, be it empty: whoever adds the first user must not have to replace every node. Directories (sssd) come
beside it in nsswitch.conf.
"""

import re
from collections.abc import Iterator
from typing import Final

from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.builders.metadata import CONFIGURATION, metadata
from sunk.operator.slurmcluster.builders.pods import Object
from sunk.operator.slurmcluster.resolve import ResolvedCluster

FOLDER: Final = "/etc/sunk/users"
MOUNT: Final = {"name": "users", "mountPath": FOLDER, "readOnly": True}
KEYS: Final = "authorized_keys"
LEAST: Final = 500
"""libnss-extrausers overlooks smaller numbers, so that nobody becomes root by it."""
_NAME: Final = re.compile(r"[a-z_][a-z0-9_.-]{0,31}")
_FIELDS: Final = {"passwd": 7, "group": 4}
_DIGITS: Final = 10
_TAKEN: Final = frozenset({64030, 64031, 64032, 65532, 65534, (1 << 32) - 1})
"""Users of the images (slurm, slurmrestd, mysql, sunk), nobody, and the number that stands for none."""
_LOCKED: Final = frozenset({"x", "*", "!", ""})


def volume(cluster: ResolvedCluster) -> Object:
    return {"name": "users", "configMap": {"name": cluster.spec.users.config_map or cluster.named("users")}}


def objects(cluster: ResolvedCluster) -> tuple[Object, ...]:
    wanted = cluster.spec.users
    if wanted.config_map:
        return ()
    data = {"passwd": _file("passwd", wanted.passwd), "group": _file("group", wanted.group)}
    for user in wanted.authorized_keys:
        if not _NAME.fullmatch(user):
            raise Refusal(f"users.authorizedKeys: {user!r} is not a valid user name.")
    data |= {f"{KEYS}.{user}": text for user, text in sorted(wanted.authorized_keys.items())}
    meta = metadata(cluster, CONFIGURATION, name="users")
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
        if not _NAME.fullmatch(fields[0]):
            raise Refusal(
                f"users.{kind}: {fields[0]!r} is not a valid name: use lowercase letters, digits, dashes, dots and underscores."
            )
        if fields[1] not in _LOCKED:
            raise Refusal(f"users.{kind}: {fields[0]} has a password, but a ConfigMap is not secret. Write * instead.")
        numbers = fields[2:4] if kind == "passwd" else fields[2:3]
        if not all(map(_is_number, numbers)):
            raise Refusal(
                f"users.{kind}: the numbers of {fields[0]} are {' and '.join(numbers)}. Use {LEAST} or more, and no number that the images use themselves."
            )
        yield fields


def _is_number(text: str) -> bool:
    # Python reads no number of thousands of digits.
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        return False
    return LEAST <= int(text) < 1 << 32 and int(text) not in _TAKEN
