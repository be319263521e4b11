"""Who the users of a cluster are: what the directory agent publishes, and what everybody else reads.

The agent (`sunk directory`, one per cluster) reads the directories and writes ConfigMaps that all Pods of the cluster mount.
So nobody but the agent asks a directory who somebody is: `id` on a node is a look into a file, and users who are known stay
known while the directory, the agent or the network are down. Only passwords are checked by the directory itself, at
login.

The operator creates these ConfigMaps and never writes their data; the agent writes their data and may touch nothing else.
"""

from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Final

from msgspec import Struct

AGENT: Final = "directory"
"""Deployment, ServiceAccount and Role of the agent, and the ConfigMap that holds what it has found: `passwd`, `group` and
`shadow`, in which the users of the values are too, and `report`."""
SETTINGS: Final = "directory-settings"
"""ConfigMap, by the operator: `settings` for the agent, and `sudoers`, `passwords` and `options` for Pods."""
LOGINS: Final = "directory-logins"
"""ConfigMaps, by the agent, with `keys-<n>` and `names-<n>`, which are for sshd; the name ends in the number."""
PARTS: Final = 4
"""Number of these: a ConfigMap may have a mebibyte."""
USERS: Final = "users"
"""ConfigMap, by the operator: the users of the values."""

PASSWD: Final = "passwd"  # noqa: S105 - the name of a file
GROUP: Final = "group"
SHADOW: Final = "shadow"
"""Nobody's password is in it. It says that an account has expired."""
SUDOERS: Final = "sudoers"
REPORT: Final = "report"
ORIGINS: Final = "origins"
"""For the agent itself: JSON, the names of groups by directory. Files have no place for it, and after a restart the agent must
know whose groups to keep while their directory is down. Of users, `names-<n>` tells it."""
SETTINGS_FILE: Final = "settings"
PASSWORDS: Final = "passwords"
"""How logins reach each directory for a password, one line each, with tabs: name, `starttls`, `tls` or `plain`, address."""
OPTIONS: Final = "options"
"""Lines `key=value` that scripts of the image read: `create_homes`, `compute_service`."""

USERS_FOLDER: Final = "/etc/sunk/users"
"""In all Pods: `passwd`, `group`, `shadow`, `sudoers`, `options`, and `authorized_keys.<user>` of the values."""
LOGINS_FOLDER: Final = "/etc/sunk/logins"
"""Where people log in: `keys-<n>` with lines `<user> <public key>`, `names-<n>` with lines `<user>`, tab, directory, tab,
DN in base64."""
SETTINGS_FOLDER: Final = "/etc/sunk/directory"
"""In the agent's Pod: the ConfigMap SETTINGS."""
SECRETS_FOLDER: Final = "/etc/sunk/directories"
"""Per directory, by its name. In the agent's Pod: `snippets`, `password` and `tls`; in login Pods: `tls`."""
SNIPPETS: Final = "snippets"
"""Folder: user.existingSecret."""
PASSWORD: Final = "password"  # noqa: S105 - the name of a folder
"""Folder: the Secret that the chart makes from user.password, under a key of the same name."""
TLS: Final = "tls"
"""Folder: ldapsCert, with tls.crt, tls.key and ca.crt, of which any may be missing."""

HOST_KEYS: Final = "ssh-host-keys"
"""Secret, by the operator: the host keys of all login Pods."""
NODE_KEYS: Final = "ssh-node-keys"
"""Secret, by the operator: the host keys of all compute Pods, where these run sshd."""
HOST_KEY_FILES: Final = ("ssh_host_ed25519_key", "ssh_host_rsa_key")
"""Keys of both Secrets. Beside each stands its public key, with .pub."""
HOST_KEYS_FOLDER: Final = "/etc/ssh/host-keys"
"""Where sshd finds the host keys of its Pod."""
NODE_KEYS_FOLDER: Final = "/etc/ssh/node-keys"
"""In login and compute Pods: the public keys of NODE_KEYS, by which ssh knows a compute Pod."""

AVAILABLE: Final = "Available"
UNREACHABLE: Final = "Unreachable"
"""Nobody answers, or not in time."""
REFUSED: Final = "Refused"
"""It answers, and does not let us in: password, certificate."""
INVALID: Final = "Invalid"
"""A value, a Secret or a snippet cannot be used."""
SUSPECT: Final = "Suspect"
"""It answers, but what it says is not believed: no canary, nobody or no groups at all where there were some, or most
memberships gone at once."""


class DirectoryReport(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """One directory, as the agent has last found it."""

    name: str
    state: str
    """One of the words above."""
    message: str = ""
    """Why it is not available, and what to do; begins with the value that is to blame."""
    users: int = 0
    groups: int = 0
    skipped: int = 0
    """Entries that are left out."""
    examples: tuple[str, ...] = ()
    """Some of these, each with the reason; at most ten."""


class PeopleReport(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What the agent tells the operator and `sunk user`. Written when it changes: nothing in it changes by itself."""

    settings: str = ""
    """Hash of the settings with which it has tried all directories, or has waited long enough for one that hangs."""
    directories: tuple[DirectoryReport, ...] = ()
    written: datetime | None = None
    """When users or groups last changed."""


def noted_accounts(data: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """Users and the accounts in which the syncer has seen them, out of the ConfigMap in which it notes that."""
    return frozenset((user, account) for account, users in data.items() for user in users.split())


def fingerprint(settings: str) -> str:
    """What `PeopleReport.settings` says of the text under SETTINGS_FILE."""
    return sha256(settings.encode()).hexdigest()[:16]
