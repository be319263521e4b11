"""Values, additionalConfig and snippets become one directory, or the value to blame is named."""

from pathlib import Path

import pytest
from msgspec import structs

from sunk.directory.domain.options import Options, SearchBase
from sunk.directory.domain.settings import Domain, Homes, Values, is_verbose, resolve
from sunk.directory.failure import Failure
from sunk.local.certificates import FiledAuthority
from sunk.model.cluster.directory import Directory, DirectoryUser
from sunk.model.contract.people import INVALID

# ruff: noqa: S106 - names of Secrets, and what stands in them

HERE = "directoryService.directories[2]"
PLAIN = Directory(ldap_uri="ldaps://ldap.example.com")


def domain(directory: Directory, folder: Path = Path("/nonexistent")) -> Domain:
    return resolve(Values(directory, 2), folder=folder, options=Options())


def refusal(directory: Directory, folder: Path = Path("/nonexistent")) -> str:
    options, values = Options(), Values(directory, 2)
    with pytest.raises(Failure) as told:
        resolve(values, folder=folder, options=options)
    assert told.value.state == INVALID
    return f"{values.blame(told.value.option, options)}: {told.value.words}"


def with_config(text: str, directory: Directory = PLAIN) -> Directory:
    return structs.replace(directory, additional_config=text)


def secret(folder: Path, name: str, **files: str | bytes) -> Path:
    (folder / name).mkdir(parents=True, exist_ok=True)
    for key, content in files.items():
        data = content if isinstance(content, bytes) else content.encode()
        (folder / name / key.replace("__", ".")).write_bytes(data)
    return folder


def test_an_address_is_enough() -> None:
    found = domain(PLAIN)
    (connection,) = found.connections
    assert (connection.uri, connection.start_tls, connection.bind_dn, connection.external) == (
        *("ldaps://ldap.example.com", False, "", False),
    )
    assert (found.attributes.user_class, found.attributes.member, found.members_are_names) == (
        *("posixAccount", "memberUid", True),
    )
    assert found.user_bases == ()
    assert found.homes == Homes(fallback_home="/home/%u", default_shell="/bin/bash")


def test_start_tls_is_required_unless_it_is_turned_off() -> None:
    assert domain(Directory(ldap_uri="ldap://a")).connections[0].start_tls
    assert not domain(Directory(ldap_uri="ldap://a", start_tls=False)).connections[0].start_tls
    assert (
        not domain(with_config("ldap_id_use_start_tls = False", Directory(ldap_uri="ldap://a")))
        .connections[0]
        .start_tls
    )


def test_servers_are_tried_in_their_order_backups_last() -> None:
    directory = with_config("ldap_backup_uri = ldap://c", Directory(ldap_uri="ldaps://a, ldap://b"))
    assert [each.uri for each in domain(directory).connections] == ["ldaps://a", "ldap://b", "ldap://c"]


def test_snippets_win_over_additional_config_which_wins_over_values(tmp_path: Path) -> None:
    text = "[domain/default]\nldap_default_authtok = three\nldap_search_base = dc=three\n"
    secret(tmp_path, "snippets", a__conf=text, ignored="[domain/default]\nmin_id = 7")
    directory = Directory(
        ldap_uri="ldaps://a",
        user=DirectoryUser(bind_dn="cn=one", search_base="dc=one", existing_secret="s"),
        user_object_class="one",
        group_object_class="one",
        additional_config="ldap_user_object_class = two\nldap_search_base = dc=two\nldap_default_authtok = two",
    )
    found = domain(directory, tmp_path)
    assert (found.attributes.user_class, found.attributes.group_class) == ("two", "one")
    assert found.user_bases == (SearchBase("dc=three"),)
    assert (found.connections[0].bind_dn, found.connections[0].password) == ("cn=one", b"three")
    assert found.min_id == 0


def test_null_and_empty_mean_that_a_value_is_not_set() -> None:
    nothing = Directory(
        ldap_uri="ldaps://a",
        schema="",
        user_object_class="",
        user_name_attr="",
        default_shell=None,
        fallback_home_dir="",
        ldaps_cert="",
        user=DirectoryUser(bind_dn="", search_base="", password_secret="", existing_secret="", canary=""),
        additional_config="  \n",
    )
    found = domain(nothing)
    assert (found.attributes.user_name, found.homes, found.canary) == ("uid", Homes(), "")


def test_a_password_of_the_values_comes_from_its_secret(tmp_path: Path) -> None:
    directory = structs.replace(PLAIN, user=DirectoryUser(bind_dn="cn=a", password_secret="s"))
    secret(tmp_path, "password", password="pass word \n")
    assert domain(directory, tmp_path).connections[0].password == b"pass word "
    assert "user.passwordSecret: Secret s does not exist" in refusal(directory, tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("schema", "name", "member", "lowers"),
    [("AD", "sAMAccountName", "member", True), ("IPA", "uid", "member", False), ("POSIX", "uid", "memberUid", False)],
)
def test_schemas_name_attributes(schema: str, name: str, member: str, lowers: bool) -> None:  # noqa: FBT001 - a column
    found = domain(with_config(f"ldap_schema = {schema}"))
    assert (found.attributes.user_name, found.attributes.member, found.lowers_names) == (name, member, lowers)


def test_overrides_rename_attributes_of_the_schema() -> None:
    found = domain(
        Directory(
            ldap_uri="ldaps://a",
            schema="AD",
            user_name_attr="cn",
            override_user_name_attr="mailNickname",
            override_uid_attr="msUid",
            override_gid_attr="msGid",
            ssh_key_attr="altSecurityIdentities",
        )
    ).attributes
    assert (found.user_name, found.uid, found.gid, found.group_gid) == ("mailNickname", "msUid", "msGid", "msGid")
    assert "altSecurityIdentities" in found.of_users()


def test_search_bases_have_scopes_and_filters() -> None:
    text = "ldap_user_search_base = ou=a?onelevel?(x=1)?ou=b??y=2\nldap_group_search_base = ou=g"
    found = domain(with_config(text))
    assert found.user_bases == (SearchBase("ou=a", "one", "(x=1)"), SearchBase("ou=b", "sub", "(y=2)"))
    assert found.group_bases == (SearchBase("ou=g"),)


def test_a_client_certificate_binds_by_itself_or_not_at_all(tmp_path: Path) -> None:
    certificate, key = FiledAuthority(tmp_path).client("agent")
    secret(tmp_path, "tls", tls__crt=certificate.read_bytes(), tls__key=key.read_bytes())
    directory = structs.replace(PLAIN, ldaps_cert="s")
    assert [each.external for each in domain(directory, tmp_path).connections] == [True, False]
    files = domain(directory, tmp_path).connections[0].tls
    assert (Path(files.certificate).name, Path(files.key).name, files.ca) == ("tls.crt", "tls.key", "")
    bound = structs.replace(directory, user=DirectoryUser(bind_dn="cn=a"), additional_config="ldap_default_authtok = x")
    assert [each.external for each in domain(bound, tmp_path).connections] == [False]


def test_secrets_that_are_missing_are_named(tmp_path: Path) -> None:
    assert refusal(structs.replace(PLAIN, ldaps_cert="s"), tmp_path) == (
        f"{HERE}.ldapsCert: Secret s does not exist or has none of the keys tls.crt, tls.key and ca.crt"
    )
    assert refusal(structs.replace(PLAIN, user=DirectoryUser(existing_secret="s")), tmp_path) == (
        f"{HERE}.user.existingSecret: Secret s does not exist or has no key that ends with .conf"
    )


def test_a_certificate_without_its_key_or_without_sense_is_named(tmp_path: Path) -> None:
    directory = structs.replace(PLAIN, ldaps_cert="s")
    secret(tmp_path, "tls", tls__crt="nonsense")
    assert refusal(directory, tmp_path).startswith(f"{HERE}.ldapsCert: there is a certificate")
    secret(tmp_path, "tls", tls__key="nonsense")
    assert refusal(directory, tmp_path).startswith(f"{HERE}.ldapsCert:")
    secret(tmp_path / "ca", "tls", ca__crt="nonsense")
    assert "no readable certificate" in refusal(directory, tmp_path / "ca")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ldap_foo = 1", "does not know the option `ldap_foo`"),
        ("ldap_user_nam = x", "did you mean `ldap_user_name`"),
        ("ldap_tls_reqcert = never", "anybody can be the server"),
        ("ldap_id_mapping = true", "SID"),
        ("id_provider = ad", "must be ldap"),
        ("ldap_sasl_mech = GSSAPI", "Kerberos"),
        ("ldap_sasl_mech = EXTERNAL", "client certificate"),
        ("use_fully_qualified_names = true", "must be false"),
        ("ldap_default_authtok_type = obfuscated_password", "must be password"),
        ("ldap_schema = novell", "must be rfc2307"),
        ("ldap_page_size = many", "must be a number"),
        ("min_id = -1", "must be a number"),
        (f"max_id = {'9' * 5000}", "must be a number"),
        ("ldap_id_use_start_tls = maybe", "true or false"),
        ("ldap_user_name = uid)(x=*", "is not the name of an attribute"),
        ("ldap_user_search_base = a?b", "base?scope"),
        ("ldap_user_search_base = a?everywhere?", "no scope"),
        ("ldap_access_filter = (a=1", "parentheses"),
        ("fallback_homedir = home/%u", "absolute path"),
        ("override_homedir = /home/%H", "not known"),
        ("override_homedir = /home/%", "not known"),
        ("default_shell = /bin/sh:x", "without colons"),
    ],
)
def test_bad_options_are_refused_with_the_value_to_blame(text: str, words: str) -> None:
    told = refusal(with_config(text))
    assert told.startswith(f"{HERE}.additionalConfig: ")
    assert words in told
    assert len(told) < 1000


@pytest.mark.parametrize(
    "uri", ["ldapi:///", "http://a", "ldap://", "ldap://a:99999", "ldaps://a/dc=x", "ldap://u@a", "a"]
)
def test_bad_addresses_are_refused(uri: str) -> None:
    assert refusal(Directory(ldap_uri=uri)).startswith(f"{HERE}.ldapUri: ")


def test_no_address_is_refused() -> None:
    assert refusal(Directory()) == f"{HERE}.ldapUri: not set: it is the address of the server"


def test_a_bind_without_a_password_is_refused() -> None:
    directory = structs.replace(PLAIN, user=DirectoryUser(bind_dn="cn=a"))
    assert refusal(directory).startswith(f"{HERE}.user.bindDn: there is a bind DN but no password")


def test_a_wrong_snippet_is_named_and_its_password_is_not_shown(tmp_path: Path) -> None:
    directory = structs.replace(PLAIN, user=DirectoryUser(bind_dn="cn=a", existing_secret="s"))
    secret(tmp_path, "snippets", a__conf="[domain/default]\nldap_default_authtok = S3cret\nldap_foo = S3cret\n")
    told = refusal(directory, tmp_path)
    assert told.startswith(f"{HERE}.user.existingSecret: line 3: ")
    assert "S3cret" not in told
    secret(tmp_path, "snippets", a__conf=b"\xff\xfe")
    assert "UTF-8" in refusal(directory, tmp_path)


@pytest.mark.parametrize(
    ("level", "verbose"),
    [
        (None, False),
        (0x0200, False),
        ("0x0400", True),
        (0x3FF0, True),
        (7, True),
        (6, False),
        ("x", False),
        ("9", True),
    ],
)
def test_debug_levels_are_those_of_sssd(level: int | str | None, verbose: bool) -> None:  # noqa: FBT001 - a column
    assert is_verbose(level) is verbose


@pytest.mark.parametrize("uri", ["ldaps://reader:S3cret@a", "ldaps://b ldaps://reader:S3,cret@a", "ldap://@a S3cret"])
@pytest.mark.parametrize("option", ["ldap_uri", "ldap_backup_uri"])
def test_a_password_in_an_address_is_refused_without_being_quoted(tmp_path: Path, option: str, uri: str) -> None:
    """The operator does not see what is in a snippet, and conditions are for everybody."""
    secret(tmp_path, "snippets", a__conf=f"[domain/default]\n{option} = {uri}\n")
    directory = structs.replace(PLAIN, user=DirectoryUser(existing_secret="s"))
    said = refusal(directory, tmp_path)
    assert said == (
        f"{HERE}.user.existingSecret: `{option}`: must have no user or password in it: set ldap_default_bind_dn and ldap_default_authtok"
    )
