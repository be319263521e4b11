"""Where users come from: LDAP directories, which the directory agent of the cluster reads."""

from typing import Annotated, ClassVar, Final, Literal

from msgspec import Meta, Struct, field

from sunk.model.cluster.parts import Image, Line, ObjectName, Resources
from sunk.model.schema.pattern import END
from sunk.model.schema.vocabulary import OR_EMPTY, OR_NULL, IntOrString, rule

Groups = Annotated[tuple[Line, ...], OR_EMPTY, Meta(max_length=64)]
Attribute = Annotated[str, Meta(max_length=128, pattern=rf"^([A-Za-z][A-Za-z0-9.;-]*)?{END}")]
"""The name of an attribute or an object class in LDAP, or nothing."""
DirectoryName = Annotated[
    str, OR_NULL, Meta(max_length=63, pattern=rf"^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?{END}")
]


PASSWORD_LINE: Final = r"(?i)ldap_default_authtok\s*="  # noqa: S105 - what finds one
"""What `additionalConfig` must not have: it is in the SlurmCluster, which more people may read than Secrets."""


class DirectoryUser(Struct, frozen=True, gc=False, rename="camel"):
    """Account for queries to the directory. Without one: anonymous, or by the certificate in `ldapsCert`."""

    RULES: ClassVar = (
        rule(
            "!has(self.password) || self.password == ''",
            "a password must not be in the SlurmCluster: the chart moves it to a Secret; otherwise use existingSecret",
        ),
    )

    bind_dn: Line | None = None
    """DN to bind with."""
    search_base: Line | None = None
    """Base DN of searches. Unset: the first naming context of the server."""
    password: Line | None = None
    """Password of the account. The chart puts it into a Secret; prefer `existingSecret`."""
    canary: Line | None = None
    """A user that must be found for the directory to count as available."""
    password_secret: ObjectName | None = None
    """A Secret with the key `password`. The chart sets it if there is a `password`."""
    existing_secret: ObjectName | None = None
    """A Secret with one or more keys that end with .conf. Each holds a snippet of sssd.conf with `ldap_default_authtok`."""


class Directory(Struct, frozen=True, gc=False, rename="camel"):
    """One LDAP directory."""

    # Of the whole directory and not of additionalConfig: a refusal quotes a text, and leaves out what an object holds.
    RULES: ClassVar = (
        rule(
            "!has(self.additionalConfig) || !self.additionalConfig.matches('{}')".format(
                PASSWORD_LINE.replace("\\", "\\\\")
            ),
            "a password must not be in the SlurmCluster: take ldap_default_authtok out of additionalConfig and use "
            "user.existingSecret",
        ),
    )

    name: DirectoryName = "default"
    """Name of the directory. Empty: default."""
    enabled: Annotated[bool, OR_NULL] = True
    """Use this directory."""
    debug_level: IntOrString | None = None
    """As in sssd; with 0x0400 or above, or 7 or above, the agent logs each search in this directory."""
    ldap_uri: Line | None = None
    """URI of the LDAP server, such as ldaps://ldap.example.com. Several, separated by commas, are tried in order. It can
    also come from `additionalConfig` or `existingSecret`; with one from a Secret users cannot log in with their
    password."""
    start_tls: bool | None = field(name="startTLS", default=None)
    """StartTLS for ldap:// URIs. Unset: required. With false everything is sent unencrypted, and users cannot log in
    with their password."""
    user: Annotated[DirectoryUser, OR_NULL] = DirectoryUser()
    default_shell: Line | None = "/bin/bash"
    """Shell of users whose entry has none."""
    fallback_home_dir: Line | None = "/home/%u"
    """Home of users whose entry has none. `%u` is the user name, `%U` the uid, `%d` the name of the directory."""
    override_home_dir: Line | None = None
    """Home of all users, whatever their entry says."""
    override_shell: Line | None = None
    """Shell of all users, whatever their entry says."""
    ldaps_cert: ObjectName | None = None
    """A Secret with the client certificate (tls.crt, tls.key), the CA of the server (ca.crt), or both."""
    sudo_groups: Annotated[Groups, OR_NULL] = ()
    """Groups of this directory that can use sudo. Groups of this name in other directories are left out."""
    schema: Literal["", "rfc2307", "rfc2307bis", "POSIX", "IPA", "AD"] | None = None
    """LDAP schema of the directory. Unset: rfc2307. POSIX is another word for rfc2307."""
    user_object_class: Attribute | None = None
    """Object class of users. Unset: that of the schema."""
    group_object_class: Attribute | None = None
    """Object class of groups. Unset: that of the schema."""
    user_name_attr: Attribute | None = None
    """Attribute with the name of a user. Unset: that of the schema."""
    group_name_attr: Attribute | None = None
    """Attribute with the name of a group. Unset: that of the schema."""
    override_user_name_attr: Attribute | None = None
    """Alias of userNameAttr."""
    override_uid_attr: Attribute | None = None
    """Attribute with the uid. Unset: uidNumber."""
    override_gid_attr: Attribute | None = None
    """Attribute with the gid of users and groups. Unset: gidNumber."""
    ssh_key_attr: Attribute | None = None
    """Attribute with the public SSH keys of a user. Unset: sshPublicKey."""
    additional_config: Annotated[str, Meta(max_length=65536)] | None = None
    """Lines for the domain as in sssd.conf, such as `ldap_user_search_base = ou=people,dc=example,dc=com`. A setting that
    the agent does not know is refused, and so is a password."""


class DirectoryService(Struct, frozen=True, gc=False, rename="camel"):
    """LDAP directories for users and groups."""

    sudo_groups: Groups = ()
    """Groups of any directory that can use sudo."""
    directories: Annotated[tuple[Directory, ...], Meta(max_length=16)] = ()
    """The directories. A user or group of the same name, or of the same number, is that of the first directory that has
    it."""
    refresh_interval: Annotated[int, Meta(ge=5, le=86_400)] = 30
    """Seconds between two reads of the directories. A read that takes long is followed by a longer pause; one that failed is
    repeated after a minute if that is sooner."""
    negative_cache_timeout: IntOrString | None = None
    """No effect: a lookup never asks a directory."""
    debug_level: IntOrString | None = None
    """For all directories that have none of their own."""
    image: Image = Image()
    """Image of the directory agent. Unset: `sunkImage`."""
    resources: Resources = field(
        default_factory=lambda: Resources(requests={"cpu": "50m", "memory": "128Mi"}, limits={"memory": "1Gi"})
    )
    priority_class_name: ObjectName = ""
    """PriorityClass of the Pod of the agent."""


class AgentSettings(Struct, frozen=True, gc=False, rename="camel"):
    """What the operator tells the directory agent, as JSON.

    Directories are all of the values, in their order: messages name them by their index.
    """

    service: DirectoryService = DirectoryService()
    users: str = ""
    """Name of the ConfigMap with the users of the values."""
    cluster: str = ""
    namespace: str = ""
