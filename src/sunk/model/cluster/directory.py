"""Where users come from. Takes effect with a later part; the values are checked already."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from sunk.model.cluster.parts import Line, ObjectName
from sunk.model.schema.vocabulary import IntOrString

Groups = Annotated[tuple[Line, ...], Meta(max_length=64)]


class DirectoryUser(Struct, frozen=True, gc=False, rename="camel"):
    """Account for queries to the directory."""

    bind_dn: Line = ""
    """DN to bind with."""
    search_base: Line = ""
    """Base DN of searches."""
    password: Line = ""
    """Password of the account. Prefer `existingSecret`."""
    canary: Line = ""
    """A user that must be found for the directory to count as available."""
    existing_secret: ObjectName = ""
    """A Secret whose keys end with .conf and hold a snippet for sssd with ldap_default_authtok."""


class Directory(Struct, frozen=True, gc=False, rename="camel"):
    """One LDAP directory."""

    name: Annotated[str, Meta(min_length=1, max_length=63)] = "default"
    """Name of the directory."""
    enabled: bool = True
    """Use this directory."""
    debug_level: IntOrString = "0x0200"
    """debug_level of sssd."""
    ldap_uri: Line = ""
    """URI of the LDAP server."""
    user: DirectoryUser = DirectoryUser()
    default_shell: Line = "/bin/bash"
    """Shell of users whose entry has none."""
    fallback_home_dir: Line = "/home/%u"
    """Home of users whose entry has none. `%u` is the user name."""
    override_home_dir: Line = ""
    """Home of all users, whatever their entry says."""
    ldaps_cert: ObjectName = ""
    """A Secret of type tls."""
    sudo_groups: Groups = ()
    """Groups of this directory that can use sudo."""
    schema: Literal["", "rfc2307", "rfc2307bis", "IPA", "AD"] = ""
    """LDAP schema of the directory."""


class DirectoryService(Struct, frozen=True, gc=False, rename="camel"):
    """LDAP directories for users and groups (not implemented yet)."""

    sudo_groups: Groups = ()
    """Groups of any directory that can use sudo."""
    directories: Annotated[tuple[Directory, ...], Meta(max_length=16)] = ()
    """The directories."""
