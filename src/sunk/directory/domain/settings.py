"""One directory as it is meant: values, then `additionalConfig`, then the snippets of the Secret, each over the one before.

All three are brought into the options of sssd first, so there is one place where each is read, and one list of who set it:
whatever goes wrong later is told with the value to blame.
"""

from pathlib import Path
from typing import Final

from msgspec import Struct

from sunk.directory.domain import schema, snippets
from sunk.directory.domain.options import ADDITIONAL, SECRET, Options, SearchBase
from sunk.directory.domain.schema import Attributes
from sunk.directory.failure import Failure
from sunk.directory.ldap.search import Connection, TlsFiles
from sunk.directory.ldap.tlsprobe import check_files
from sunk.model.cluster.directory import Directory
from sunk.model.contract import people

SNIPPET_LIMIT: Final = 1 << 20
_SUFFIX: Final = ".conf"
_CERTIFICATE, _KEY, _CA = "tls.crt", "tls.key", "ca.crt"
_OLD_SCALE, _OLD_VERBOSE, _VERBOSE = 9, 7, 0x0400
_VALUES: Final = {
    "ldap_uri": "ldapUri",
    "ldap_id_use_start_tls": "startTLS",
    "ldap_default_bind_dn": "user.bindDn",
    "ldap_default_authtok": SECRET,
    "ldap_search_base": "user.searchBase",
    "ldap_user_search_base": "user.searchBase",
    "ldap_group_search_base": "user.searchBase",
    "ldap_tls_cacert": "ldapsCert",
    "ldap_tls_cert": "ldapsCert",
    "ldap_tls_key": "ldapsCert",
    "canary": "user.canary",
    "name": "name",
}
"""Which value to blame for an option that nobody has set."""
_INSTEAD: Final = {"ldap_user_search_base": "ldap_search_base", "ldap_group_search_base": "ldap_search_base"}
"""Which option counts where this one is not set."""


class Homes(Struct, frozen=True):
    """Home and shell, where the entry does not decide."""

    override_home: str = ""
    fallback_home: str = ""
    override_shell: str = ""
    default_shell: str = ""


class Domain(Struct, frozen=True):
    """A directory, ready to be read."""

    name: str
    connections: tuple[Connection, ...]
    """In the order in which to try them: each server, and for each the ways to bind."""
    attributes: Attributes
    members_are_names: bool
    lowers_names: bool
    user_bases: tuple[SearchBase, ...] = ()
    """Empty: wherever the server says that its data is."""
    group_bases: tuple[SearchBase, ...] = ()
    access_filter: str = ""
    canary: str = ""
    homes: Homes = Homes()
    min_id: int = 0
    max_id: int = 0
    default_base_prefix: str = ""
    verbose: bool = False

    def has_in_range(self, number: int) -> bool:
        """Whether a uid or gid is one that `min_id` and `max_id` let this directory have."""
        return self.min_id <= number and (not self.max_id or number <= self.max_id)


class Values(Struct, frozen=True):
    """Which directory of the values, to name it to people."""

    directory: Directory
    index: int

    def blame(self, option: str, options: Options) -> str:
        value = options.source(option) or options.source(_INSTEAD.get(option, "")) or _VALUES.get(option, option)
        here = f"directoryService.directories[{self.index}]"
        if value == "image":
            return "directoryService.image"
        return f"{here}.{value}" if value in _NAMES else here


_NAMES: Final = frozenset({*_VALUES.values(), ADDITIONAL, SECRET, "user.passwordSecret", "schema", "ldapsCert"}) | {
    *("userObjectClass", "groupObjectClass", "userNameAttr", "overrideUserNameAttr", "groupNameAttr"),
    *("overrideUidAttr", "overrideGidAttr", "sshKeyAttr", "debugLevel"),
    *("defaultShell", "fallbackHomeDir", "overrideHomeDir", "overrideShell"),
}


def resolve(values: Values, *, folder: Path, options: Options) -> Domain:
    """Read everything again: kubelets change the files. `options` is filled, and says later who is to blame."""
    directory = values.directory
    _from_values(directory, options)
    _from_secrets(directory, folder, options)
    _from_text(directory.additional_config or "", options, name=directory.name, source=ADDITIONAL)
    _from_snippets(directory, folder / people.SNIPPETS, options)
    options.check()
    return _domain(directory, options)


def _from_values(directory: Directory, options: Options) -> None:
    user = directory.user
    start_tls = None if directory.start_tls is None else str(directory.start_tls)
    for option, value, source in (
        ("ldap_uri", directory.ldap_uri, "ldapUri"),
        ("ldap_id_use_start_tls", start_tls, "startTLS"),
        ("ldap_default_bind_dn", user.bind_dn, "user.bindDn"),
        ("ldap_search_base", user.search_base, "user.searchBase"),
        ("ldap_schema", directory.schema, "schema"),
        ("ldap_user_object_class", directory.user_object_class, "userObjectClass"),
        ("ldap_group_object_class", directory.group_object_class, "groupObjectClass"),
        ("ldap_user_name", directory.user_name_attr, "userNameAttr"),
        ("ldap_user_name", directory.override_user_name_attr, "overrideUserNameAttr"),
        ("ldap_group_name", directory.group_name_attr, "groupNameAttr"),
        ("ldap_user_uid_number", directory.override_uid_attr, "overrideUidAttr"),
        ("ldap_user_gid_number", directory.override_gid_attr, "overrideGidAttr"),
        ("ldap_group_gid_number", directory.override_gid_attr, "overrideGidAttr"),
        ("ldap_user_ssh_public_key", directory.ssh_key_attr, "sshKeyAttr"),
        ("default_shell", directory.default_shell, "defaultShell"),
        ("fallback_homedir", directory.fallback_home_dir, "fallbackHomeDir"),
        ("override_homedir", directory.override_home_dir, "overrideHomeDir"),
        ("override_shell", directory.override_shell, "overrideShell"),
    ):
        options.put(option, value, source=source)


def _from_secrets(directory: Directory, folder: Path, options: Options) -> None:
    if secret := directory.user.password_secret:
        source = "user.passwordSecret"
        password = _read(folder / people.PASSWORD / people.PASSWORD, option=source)
        if not password:
            words = f"Secret {secret} does not exist or has no key {people.PASSWORD}"
            raise Failure(people.INVALID, words, option=source)
        options.put("ldap_default_authtok", password.removesuffix("\n"), source=source)
    if secret := directory.ldaps_cert:
        files = {name: folder / people.TLS / name for name in (_CERTIFICATE, _KEY, _CA)}
        there = {name for name, file in files.items() if file.is_file()}
        if not there:
            words = f"Secret {secret} does not exist or has none of the keys {_CERTIFICATE}, {_KEY} and {_CA}"
            raise Failure(people.INVALID, words, option="ldapsCert")
        for option, name in (("ldap_tls_cert", _CERTIFICATE), ("ldap_tls_key", _KEY), ("ldap_tls_cacert", _CA)):
            options.put(option, str(files[name]) if name in there else None, source="ldapsCert")


def _from_snippets(directory: Directory, folder: Path, options: Options) -> None:
    secret = directory.user.existing_secret
    if not secret:
        return
    files = sorted(file for file in folder.glob(f"*{_SUFFIX}") if file.is_file()) if folder.is_dir() else []
    if not files:
        words = f"Secret {secret} does not exist or has no key that ends with {_SUFFIX}"
        raise Failure(people.INVALID, words, option=SECRET)
    text = "\n".join(_read(file, option=SECRET) for file in files)
    _from_text(text, options, name=directory.name, source=SECRET)


def _from_text(text: str, options: Options, *, name: str, source: str) -> None:
    if not text.strip() and source == ADDITIONAL:
        return
    lines = snippets.parse(text, source=source)
    for line in snippets.of_domain(lines, name=name, source=source, needs_section=source == SECRET):
        options.add(line.name, line.value, source=source, line=line.number)


def _read(file: Path, *, option: str) -> str:
    """Text of a file; empty if there is none."""
    try:
        content = file.read_bytes()
        if len(content) > SNIPPET_LIMIT:
            raise Failure(people.INVALID, f"{file.name} has more than a mebibyte", option=option)
        return content.decode()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise Failure(people.INVALID, f"{file.name} cannot be read ({error.strerror})", option=option) from error
    except UnicodeDecodeError as error:
        raise Failure(people.INVALID, f"{file.name} is no text in UTF-8", option=option) from error


def _domain(directory: Directory, options: Options) -> Domain:
    kind = options.get("ldap_schema", schema.RFC2307)
    # Names of Active Directory have no case, and people type them as they like. A file has.
    lowers = kind == schema.AD if not options.source("case_sensitive") else options.get("case_sensitive", "") != "true"
    both = options.get("ldap_search_base", ())
    canary = (directory.user.canary or "").strip()
    return Domain(
        name=directory.name,
        connections=_connections(options),
        attributes=schema.attributes(kind, {name: options.get(name, "") for name in schema.OPTIONS}),
        members_are_names=kind == schema.RFC2307,
        lowers_names=lowers,
        user_bases=options.get("ldap_user_search_base", both),
        group_bases=options.get("ldap_group_search_base", both),
        # Beside the accounts, FreeIPA has copies of them for old clients.
        default_base_prefix="cn=accounts," if kind == schema.IPA else "",
        access_filter=options.get("ldap_access_filter", ""),
        canary=canary.lower() if lowers else canary,
        homes=Homes(
            override_home=options.get("override_homedir", ""),
            fallback_home=options.get("fallback_homedir", ""),
            override_shell=options.get("override_shell", ""),
            default_shell=options.get("default_shell", ""),
        ),
        min_id=options.get("min_id", 0),
        max_id=options.get("max_id", 0),
        verbose=is_verbose(directory.debug_level),
    )


def _connections(options: Options) -> tuple[Connection, ...]:
    nothing: tuple[str, ...] = ()
    uris = (*options.get("ldap_uri", nothing), *options.get("ldap_backup_uri", nothing))
    if not uris:
        raise Failure(people.INVALID, "not set: it is the address of the server", option="ldap_uri")
    files = _tls_files(options)
    bind_dn, password = options.get("ldap_default_bind_dn", ""), options.get("ldap_default_authtok", "")
    if bind_dn and not password:
        words = "there is a bind DN but no password: set user.existingSecret"
        raise Failure(people.INVALID, words, option="ldap_default_bind_dn")
    start_tls = options.get("ldap_id_use_start_tls", default=True)
    return tuple(
        Connection(
            uri=uri,
            start_tls=start_tls and uri.startswith("ldap://"),
            bind_dn="" if external else bind_dn,
            password=password.encode() if bind_dn and not external else b"",
            external=external,
            tls=files,
            network_timeout=options.get("ldap_network_timeout", 6),
            search_timeout=options.get("ldap_search_timeout", 60),
            page_size=options.get("ldap_page_size", 1000),
        )
        for uri in uris
        for external in _ways_to_bind(options, files, encrypted=start_tls or uri.startswith("ldaps://"))
    )


def _ways_to_bind(options: Options, files: TlsFiles, *, encrypted: bool) -> tuple[bool, ...]:
    """Whether by the certificate, in the order in which to try it.

    A certificate says who we are (EXTERNAL), or it only lets us in and nobody binds. Which of the two, the server knows.
    """
    if options.source("ldap_sasl_mech"):
        if not files.certificate or not encrypted:
            words = "`ldap_sasl_mech = EXTERNAL` needs a client certificate (ldapsCert) and TLS"
            raise Failure(people.INVALID, words, option="ldap_sasl_mech")
        return (True,)
    by_certificate = files.certificate and encrypted and not options.source("ldap_default_bind_dn")
    return (True, False) if by_certificate else (False,)


def _tls_files(options: Options) -> TlsFiles:
    found = {name: options.get(f"ldap_tls_{name}", "") for name in ("cacert", "cert", "key")}
    if bool(found["cert"]) != bool(found["key"]):
        given, missing = ("cert", "key") if found["cert"] else ("key", "cert")
        names = {"cert": f"a certificate ({_CERTIFICATE})", "key": f"a key ({_KEY})"}
        words = f"there is {names[given]} without {names[missing]}"
        raise Failure(people.INVALID, words, option=f"ldap_tls_{given}")
    files = TlsFiles(ca=found["cacert"], certificate=found["cert"], key=found["key"])
    check_files(files)
    return files


def is_verbose(level: int | str | None) -> bool:
    """As sssd reads it: up to 9 a scale, above it bits. Whatever cannot be read is not verbose."""
    try:
        number = int(str(level), 0) if level is not None else 0
    except ValueError:
        return False
    return _OLD_VERBOSE <= number <= _OLD_SCALE or number >= _VERBOSE
