"""Where users come from. Takes effect with a later part; the values are checked already."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from sunk.model.cluster.parts import Line, ObjectName
from sunk.model.schema.vocabulary import IntOrString

Groups = Annotated[tuple[Line, ...], Meta(max_length=64)]


class DirectoryUser(Struct, frozen=True, gc=False, rename="camel"):
    """As whom the directory is asked."""

    bind_dn: Line = ""
    search_base: Line = ""
    password: Line = ""
    canary: Line = ""
    """A user that must be found for the directory to count as reached."""
    existing_secret: ObjectName = ""
    """A Secret whose keys end with .conf and hold a snippet for sssd with ldap_default_authtok."""


class Directory(Struct, frozen=True, gc=False, rename="camel"):
    """One LDAP directory."""

    name: Annotated[str, Meta(min_length=1, max_length=63)] = "default"
    enabled: bool = True
    debug_level: IntOrString = "0x0200"
    ldap_uri: Line = ""
    user: DirectoryUser = DirectoryUser()
    default_shell: Line = "/bin/bash"
    fallback_home_dir: Line = "/home/%u"
    override_home_dir: Line = ""
    ldaps_cert: ObjectName = ""
    """A Secret of type tls."""
    sudo_groups: Groups = ()
    schema: Literal["", "rfc2307", "rfc2307bis", "IPA", "AD"] = ""


class DirectoryService(Struct, frozen=True, gc=False, rename="camel"):
    """All directories."""

    sudo_groups: Groups = ()
    """Groups of any directory that may use sudo."""
    directories: Annotated[tuple[Directory, ...], Meta(max_length=16)] = ()
