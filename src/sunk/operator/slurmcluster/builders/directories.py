"""Directories of a cluster: which are in use, whether they can be, and what is written down about them.

Whatever can be told from the values alone is refused here, with its path. What takes a look at the directory, a Secret or
a snippet is the agent's to tell, in its report: one directory that does not work must not hold up the others, nor a
change of anything else.

Null and an empty text mean that a value is not set, wherever they stand. `enabled` takes that out, so that nobody else has
to ask: what it returns has the default where there is one, and None elsewhere.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from sunk.model.cluster.directory import PASSWORD_LINE, Directory, DirectoryService
from sunk.model.contract import people
from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.resolve import ResolvedCluster

PLACE: Final = "directoryService"
STARTTLS, TLS, PLAIN = "starttls", "tls", "plain"
_SCHEMES: Final = ("ldap", "ldaps")
_UNWANTED: Final = ("image", "resources", "priorityClassName")
"""Of the agent's Pod. They are no settings of the agent, which would otherwise read all directories again for them."""
_USER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")
_GROUP: Final = re.compile(r"[^\x00-\x1f\x7f:,\"%#/!]{1,256}")
_PATH: Final = re.compile(r"/[^:\s\x00-\x1f\x7f]*")
_PASSWORD: Final = re.compile(PASSWORD_LINE)
_SPECIAL: Final = re.compile(r"([^\w.-])", re.ASCII)
_OFF: Final = frozenset({"false", "no", "off", "0"})


class EnabledDirectory(Struct, frozen=True):
    """One that is in use."""

    index: int
    """Its place in the values, where the disabled ones count too."""
    directory: Directory

    @property
    def name(self) -> str:
        return self.directory.name

    @property
    def place(self) -> str:
        """Where a person finds it."""
        return f"{PLACE}.directories[{self.index}]"

    @property
    def config(self) -> Mapping[str, str]:
        """The settings of additionalConfig, which go before the values. What cannot be read the agent complains about."""
        pairs = (line.partition("=") for line in (self.directory.additional_config or "").splitlines())
        return {key.strip().lower(): text.strip() for key, sign, text in pairs if sign and key.strip()[:1] not in "#;["}

    @property
    def uris(self) -> tuple[str, ...]:
        """The addresses of its servers, in the order in which they are tried. None, if only a Secret has them."""
        said = self.config.get("ldap_uri") or self.directory.ldap_uri or ""
        both = f"{said},{self.config.get('ldap_backup_uri', '')}"
        return tuple(uri for uri in map(str.strip, both.split(",")) if uri)


def enabled(cluster: ResolvedCluster) -> tuple[EnabledDirectory, ...]:
    """Those that are in use, in their order; one that cannot be used is refused."""
    _check_secrecy(cluster.spec.directory_service)
    found = in_use(cluster.spec.directory_service)
    owners: dict[str, EnabledDirectory] = {}
    for each in found:
        _check(each)
        if each.name in owners:
            raise Refusal(
                f"{each.place}.name: {owners[each.name].place} is also called {each.name}. Give each directory a name of its own."
            )
        owners[each.name] = each
    return found


def in_use(service: DirectoryService) -> tuple[EnabledDirectory, ...]:
    """As `enabled`, unchecked."""
    numbered = enumerate(service.directories)
    return tuple(EnabledDirectory(index, _said(each)) for index, each in numbered if each.enabled)


def folder(each: EnabledDirectory, what: str) -> str:
    """Where a Pod has a Secret of a directory."""
    return f"{people.SECRETS_FOLDER}/{each.name}/{what}"


def settings(cluster: ResolvedCluster) -> str:
    """What the agent goes by, as JSON. All directories are there, since it names them by their index, and no password is."""
    service = _without_blanks(msgspec.to_builtins(cluster.spec.directory_service))
    service = {key: value for key, value in service.items() if key not in _UNWANTED}
    directories = [msgspec.to_builtins(_said(each)) for each in cluster.spec.directory_service.directories]
    made = {
        "service": service | {"directories": list(map(_without_blanks, directories))},
        "users": cluster.spec.users.config_map or cluster.named(people.USERS),
        "cluster": cluster.name,
        "namespace": cluster.namespace,
    }
    return msgspec.json.format(msgspec.json.encode(made), indent=1).decode() + "\n"


def passwords(cluster: ResolvedCluster) -> str:
    """How logins reach the directories: a line for each server."""
    rows = ((each.name, _security(each, uri), uri) for each in enabled(cluster) for uri in each.uris)
    return "".join("\t".join(row) + "\n" for row in rows)


def sudoers(cluster: ResolvedCluster) -> str:
    service = cluster.spec.directory_service
    groups = [*_groups(service.sudo_groups, at=PLACE)]
    for each in enabled(cluster):
        groups += _groups(each.directory.sudo_groups, at=each.place)
    return "".join(f"%{_escaped(group)} ALL=(ALL:ALL) NOPASSWD: ALL\n" for group in dict.fromkeys(groups))


def _said(directory: Directory) -> Directory:
    """The directory without blanks, and without its password: that is not for us to know."""
    plain = _without_blanks(msgspec.to_builtins(directory))
    plain["user"] = {key: value for key, value in plain.get("user", {}).items() if key != "password"}
    return msgspec.convert(plain, Directory)


def _without_blanks(tree: Mapping[str, Any]) -> dict[str, Any]:
    """What somebody has set: false and 0 are something, null and empty are nothing."""
    kept = {key: _without_blanks(value) if isinstance(value, dict) else value for key, value in tree.items()}
    return {key: value for key, value in kept.items() if value is not None and value not in ("", (), [], {})}


def _check_secrecy(service: DirectoryService) -> None:
    """Of all directories: those that are not in use are in the settings too."""
    for index, directory in enumerate(service.directories):
        if _PASSWORD.search(directory.additional_config or ""):
            raise Refusal(
                f"{PLACE}.directories[{index}].additionalConfig: ldap_default_authtok is a password, and more people may read "
                "a SlurmCluster than Secrets. Put it into a Secret and set user.existingSecret."
            )


def _check(each: EnabledDirectory) -> None:
    directory = each.directory
    if not each.uris and not directory.user.existing_secret:
        raise Refusal(
            f"{each.place}.ldapUri is empty: set the address of the directory, such as ldaps://ldap.example.com, or disable it."
        )
    at = "additionalConfig: ldap_uri" if "ldap_uri" in each.config else "ldapUri"
    # None of them is quoted then: what is before it may be a password, with a comma in it.
    if any("@" in uri for uri in each.uris):
        raise Refusal(
            f"{each.place}.{at}: what has a user or a password in it is no address of a server. Set user.bindDn and "
            "user.existingSecret instead."
        )
    for uri in each.uris:
        if problem := _trouble(uri):
            raise Refusal(f"{each.place}.{at}: {uri!r} {problem}")
    if directory.user.canary and not _USER.fullmatch(directory.user.canary):
        raise Refusal(f"{each.place}.user.canary: {directory.user.canary!r} is not a valid user name.")
    _check_paths(each)


def _trouble(uri: str) -> str:
    """What is wrong with the address of a server."""
    scheme, sign, _ = uri.partition("://")
    if scheme.lower() == "ldapi":
        return "is a socket of this machine, and the agent has a Pod of its own. Use ldaps:// or ldap://."
    if not sign or scheme.lower() not in _SCHEMES:
        return "must begin with ldaps:// or ldap://."
    try:
        parts = urlsplit(uri)
        found = parts.hostname and parts.port != 0
    except ValueError:
        found = None
    if not found or not uri.isascii() or not uri.isprintable() or " " in uri:
        return "is no address of a server: write it like ldaps://ldap.example.com or ldap://10.0.0.1:3389."
    return ""


def _check_paths(each: EnabledDirectory) -> None:
    """They become fields of passwd, where a colon begins the next one."""
    directory = each.directory
    paths = {
        "defaultShell": directory.default_shell,
        "fallbackHomeDir": directory.fallback_home_dir,
        "overrideHomeDir": directory.override_home_dir,
        "overrideShell": directory.override_shell,
    }
    for key, path in paths.items():
        if path and not _PATH.fullmatch(path):
            raise Refusal(f"{each.place}.{key}: {path!r} must be an absolute path without blanks and colons.")


def _security(each: EnabledDirectory, uri: str) -> str:
    if uri.lower().startswith("ldaps:"):
        return TLS
    said = each.config.get("ldap_id_use_start_tls", "").lower()
    refused = said in _OFF if said else each.directory.start_tls is False
    return PLAIN if refused else STARTTLS


def _groups(names: Iterable[str], *, at: str) -> Iterator[str]:
    for index, name in enumerate(names):
        if name and not (_GROUP.fullmatch(name) and name == name.strip()):
            raise Refusal(f"{at}.sudoGroups[{index}]: {name!r} cannot be the name of a group in sudoers.")
        if name:
            yield name


def _escaped(group: str) -> str:
    """As sudoers takes it: a blank, a bracket or an equals sign would end the name."""
    return _SPECIAL.sub(lambda found: f"\\{found[1]}" if found[1].isascii() else found[1], group)
