"""Users that every part of a cluster knows, without a directory."""

from typing import Annotated, ClassVar

from msgspec import Meta, Struct, field

from sunk.model.cluster.parts import ObjectName
from sunk.model.schema.vocabulary import rule

Entries = Annotated[str, Meta(max_length=262144)]
KeyLines = Annotated[str, Meta(max_length=65536)]


class Users(Struct, frozen=True, gc=False, rename="camel"):
    """Users and groups in addition to those of the images, known to all components. A change needs no restart."""

    RULES: ClassVar = (
        rule(
            "!has(self.configMap) || self.configMap == '' || ((!has(self.passwd) || self.passwd == '') && "
            "(!has(self.group) || self.group == '') && (!has(self.authorizedKeys) || size(self.authorizedKeys) == 0))",
            "configMap replaces passwd, group and authorizedKeys: set only one of them",
        ),
    )

    passwd: Entries = ""
    """Lines of a passwd file, with uids from 500 up."""
    group: Entries = ""
    """Lines of a group file, with gids from 500 up."""
    authorized_keys: Annotated[
        dict[str, KeyLines],
        rule("self.all(name, name.matches('^[a-z_][a-z0-9_.-]{0,31}$'))", "keys must be user names"),
        Meta(max_length=256),
    ] = field(default_factory=dict)
    """Public SSH keys by user name, in addition to those in their homes."""
    config_map: ObjectName = ""
    """A ConfigMap to use instead, with the keys `passwd`, `group` and `authorized_keys.<user>`."""
