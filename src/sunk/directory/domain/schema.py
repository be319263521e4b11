"""What attributes are called in each schema, before values and snippets say otherwise."""

from typing import Final

from msgspec import Struct, structs

RFC2307: Final = "rfc2307"
RFC2307BIS: Final = "rfc2307bis"
IPA: Final = "IPA"
AD: Final = "AD"


class Attributes(Struct, frozen=True):
    """Names of object classes and attributes."""

    user_class: str = "posixAccount"
    user_name: str = "uid"
    uid: str = "uidNumber"
    gid: str = "gidNumber"
    gecos: str = "gecos"
    full_name: str = "cn"
    """What stands in for a gecos that is missing."""
    home: str = "homeDirectory"
    shell: str = "loginShell"
    ssh_key: str = "sshPublicKey"
    group_class: str = "posixGroup"
    group_name: str = "cn"
    group_gid: str = "gidNumber"
    member: str = "memberUid"

    def of_users(self) -> tuple[str, ...]:
        """All that is asked for about a user."""
        wanted = (self.user_name, self.uid, self.gid, self.gecos, self.full_name, self.home, self.shell, self.ssh_key)
        return tuple(dict.fromkeys((*wanted, *LOCKS)))

    def of_groups(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.group_name, self.group_gid, self.member)))


LOCKS: Final = (
    *("userAccountControl", "accountExpires", "nsAccountLock"),
    *("pwdAccountLockedTime", "shadowExpire", "krbPrincipalExpiration"),
)
"""What says that an account is locked, see `sunk.directory.users.locks`."""

SCHEMAS: Final = {
    RFC2307: Attributes(),
    RFC2307BIS: Attributes(member="member"),
    IPA: Attributes(member="member", ssh_key="ipaSshPubKey"),
    AD: Attributes(
        user_class="user",
        user_name="sAMAccountName",
        full_name="displayName",
        home="unixHomeDirectory",
        group_class="group",
        group_name="sAMAccountName",
        member="member",
    ),
}
OPTIONS: Final = {
    "ldap_user_object_class": "user_class",
    "ldap_user_name": "user_name",
    "ldap_user_uid_number": "uid",
    "ldap_user_gid_number": "gid",
    "ldap_user_gecos": "gecos",
    "ldap_user_fullname": "full_name",
    "ldap_user_home_directory": "home",
    "ldap_user_shell": "shell",
    "ldap_user_ssh_public_key": "ssh_key",
    "ldap_group_object_class": "group_class",
    "ldap_group_name": "group_name",
    "ldap_group_gid_number": "group_gid",
    "ldap_group_member": "member",
}
"""Which option of sssd renames which of them."""


def attributes(schema: str, renamed: dict[str, str]) -> Attributes:
    """Give the names of a schema, with those that options set instead."""
    fields = {OPTIONS[option]: name for option, name in renamed.items() if name}
    return structs.replace(SCHEMAS[schema], **fields)
