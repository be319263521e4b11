"""Users that every part of a cluster knows, without a directory."""

from typing import Annotated, ClassVar

from msgspec import Meta, Struct, field

from sunk.model.cluster.parts import ObjectName
from sunk.model.schema.vocabulary import rule

Entries = Annotated[str, Meta(max_length=262144)]
KeyLines = Annotated[str, Meta(max_length=65536)]


class Users(Struct, frozen=True, gc=False, rename="camel"):
    """Users and groups beside those of the image. Every part of the cluster knows them, and a change needs no restart."""

    RULES: ClassVar = (
        rule(
            "!has(self.configMap) || self.configMap == '' || ((!has(self.passwd) || self.passwd == '') && "
            "(!has(self.group) || self.group == '') && (!has(self.authorizedKeys) || size(self.authorizedKeys) == 0))",
            "configMap is a list of users kept elsewhere: set it, or passwd, group and authorizedKeys",
        ),
    )

    passwd: Entries = ""
    """Lines of a passwd file, with numbers from 500 on."""
    group: Entries = ""
    """Lines of a group file, with numbers from 500 on."""
    authorized_keys: Annotated[
        dict[str, KeyLines],
        rule("self.all(name, name.matches('^[a-z_][a-z0-9_.-]{0,31}$'))", "the names are those of users"),
        Meta(max_length=256),
    ] = field(default_factory=dict)
    """Public keys for ssh by user name, beside those of their homes."""
    config_map: ObjectName = ""
    """A ConfigMap with the keys `passwd`, `group` and `authorized_keys.<user>` instead."""
