"""Directories of the values: what is refused, and what is written down for the agent, sudo and logins."""

import json
from typing import Any

import msgspec
import pytest
from tests.unit.operator.slurmcluster.clusters import built, cluster

from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.builders import directories
from sunk.operator.slurmcluster.objects import objects
from sunk.operator.slurmcluster.resolve import ResolvedCluster

URI = "ldaps://ldap.example.com"


def with_directories(*each: dict[str, Any], **service: Any) -> ResolvedCluster:
    return cluster({"directoryService": {"directories": each} | service})


def settings(made: ResolvedCluster) -> Any:
    return json.loads(built(made, "ConfigMap", "slurm-directory-settings")["data"]["settings"])


def passwords(*each: dict[str, Any]) -> str:
    return str(built(with_directories(*each), "ConfigMap", "slurm-directory-settings")["data"]["passwords"])


def sudoers(*each: dict[str, Any], **service: Any) -> str:
    return str(built(with_directories(*each, **service), "ConfigMap", "slurm-directory-settings")["data"]["sudoers"])


def test_the_agent_is_told_what_somebody_has_set_and_nothing_else() -> None:
    user = {"bindDn": "cn=reader", "passwordSecret": "slurm-directory-0", "canary": "", "searchBase": None}
    made = with_directories(
        {"name": "main", "ldapUri": URI, "user": user, "schema": "", "startTLS": False, "defaultShell": None},
        {"name": "off", "enabled": False},
        refreshInterval=60,
        negativeCacheTimeout="",
        image={"tag": "mine"},
    )
    found = settings(made)
    assert (found["users"], found["cluster"], found["namespace"]) == ("slurm-users", "slurm", "team")
    service = found["service"]
    assert not {"image", "resources", "priorityClassName", "negativeCacheTimeout"} & set(service)
    assert service["refreshInterval"] == 60
    first, second = service["directories"]
    assert first["user"] == {"bindDn": "cn=reader", "passwordSecret": "slurm-directory-0"}
    assert first["startTLS"] is False
    assert first["defaultShell"] == "/bin/bash", "null means that it is not set"
    assert "schema" not in first
    assert (second["name"], second["enabled"]) == ("off", False), "the agent names directories by their index"


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize(
    "line", ["ldap_default_authtok = S3cret", "# LDAP_default_authtok=S3cret", "a = b\nldap_default_authtok\t= S3cret"]
)
def test_a_password_among_the_options_is_refused_without_being_quoted(line: str, *, enabled: bool) -> None:
    made = with_directories(
        {"name": "a", "ldapUri": URI}, {"name": "b", "enabled": enabled, "ldapUri": URI, "additionalConfig": line}
    )
    with pytest.raises(Refusal) as refused:
        objects(made)
    assert str(refused.value).startswith("directoryService.directories[1].additionalConfig: ldap_default_authtok")
    assert "S3cret" not in str(refused.value)


@pytest.mark.parametrize("password", ["S3cret", "S3cret,x", "x,S3cret"])
def test_a_password_in_an_address_is_refused_without_being_quoted(password: str) -> None:
    with pytest.raises(Refusal) as refused:
        objects(with_directories({"ldapUri": f"{URI},ldaps://reader:{password}@ldap.example.com"}))
    assert str(refused.value).startswith("directoryService.directories[0].ldapUri: what has a user or a password in it")
    assert "S3cret" not in str(refused.value)


def test_how_a_password_is_given_is_no_password() -> None:
    line = "ldap_default_authtok_type = password"
    assert objects(with_directories({"ldapUri": URI, "additionalConfig": line}))


def test_another_list_of_users_is_named_to_the_agent() -> None:
    made = cluster({"users": {"configMap": "people"}, "directoryService": {"directories": [{"ldapUri": URI}]}})
    assert settings(made)["users"] == "people"


def test_a_password_is_in_nothing_that_is_built() -> None:
    user = {"bindDn": "cn=x", "password": "hunter2"}
    made = with_directories({"ldapUri": URI, "user": user})
    assert "hunter2" not in msgspec.json.encode(objects(made)).decode()


def test_settings_stay_the_same_when_only_the_agents_pod_changes() -> None:
    one = with_directories({"ldapUri": URI})
    other = with_directories({"ldapUri": URI}, priorityClassName="high", resources={"limits": {"memory": "2Gi"}})
    assert directories.settings(one) == directories.settings(other)


@pytest.mark.parametrize("blank", [None, ""])
def test_null_and_empty_mean_that_a_value_is_not_set(blank: str | None) -> None:
    texts = ("bindDn", "searchBase", "canary", "passwordSecret", "existingSecret", "password")
    kept = ("defaultShell", "fallbackHomeDir", "overrideHomeDir", "overrideShell", "ldapsCert", "schema", "debugLevel")
    more = ("userObjectClass", "userNameAttr", "overrideUidAttr", "sshKeyAttr", "additionalConfig")
    blanks = dict.fromkeys((*kept, *more), blank)
    said = {"ldapUri": URI, "user": dict.fromkeys(texts, blank), **blanks}
    said |= {"name": ""} if blank == "" else {}
    assert settings(with_directories(said)) == settings(with_directories({"ldapUri": URI}))
    assert [each.name for each in directories.enabled(with_directories(said))] == ["default"]


@pytest.mark.parametrize(
    ("directory", "said"),
    [
        ({}, ".ldapUri is empty: set the address"),
        ({"ldapUri": ""}, ".ldapUri is empty"),
        ({"ldapUri": " , "}, ".ldapUri is empty"),
        ({"ldapUri": "ldap.example.com"}, ".ldapUri: 'ldap.example.com' must begin with ldaps:// or ldap://."),
        ({"ldapUri": "https://ldap"}, "must begin with ldaps:// or ldap://"),
        ({"ldapUri": f"{URI}, ldapi:///run/ldapi"}, "'ldapi:///run/ldapi' is a socket of this machine"),
        ({"ldapUri": "ldaps://"}, "is no address of a server"),
        ({"ldapUri": "ldaps://a b"}, "is no address of a server"),
        ({"ldapUri": "ldap://a\tb"}, "is no address of a server"),
        ({"ldapUri": "ldap://a:70000"}, "is no address of a server"),
        ({"ldapUri": "ldap://[::1"}, "is no address of a server"),
        ({"ldapUri": "ldap://cn=x:secret@a"}, "is no address of a server"),
        ({"additionalConfig": "ldap_uri = http://a"}, ".additionalConfig: ldap_uri: 'http://a' must begin with"),
        ({"ldapUri": URI, "user": {"canary": "no body"}}, ".user.canary: 'no body' is not a valid user name"),
        ({"ldapUri": URI, "defaultShell": "bash"}, ".defaultShell: 'bash' must be an absolute path"),
        ({"ldapUri": URI, "overrideHomeDir": "/home/%u:x"}, ".overrideHomeDir: '/home/%u:x' must be"),
        (
            {"ldapUri": URI, "sudoGroups": ["a", "b:c"]},
            ".sudoGroups[1]: 'b:c' cannot be the name of a group in sudoers",
        ),
        ({"ldapUri": URI, "sudoGroups": ["#0"]}, "cannot be the name of a group"),
        ({"ldapUri": URI, "sudoGroups": ["%admins"]}, "cannot be the name of a group"),
        ({"ldapUri": URI, "sudoGroups": [" admins"]}, "cannot be the name of a group"),
        ({"ldapUri": URI, "sudoGroups": ['"x"']}, "cannot be the name of a group"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_path(directory: dict[str, Any], said: str) -> None:
    with pytest.raises(Refusal) as refused:
        objects(with_directories({"name": "fine", "ldapUri": URI}, directory))
    assert str(refused.value).startswith("directoryService.directories[1].")
    assert said in str(refused.value)


def test_groups_of_all_directories_are_checked_too() -> None:
    with pytest.raises(Refusal, match=r"^directoryService\.sudoGroups\[0\]: 'a,b' cannot be"):
        objects(with_directories(sudoGroups=["a,b"]))


def test_two_directories_have_two_names() -> None:
    with pytest.raises(Refusal) as refused:
        objects(with_directories({"ldapUri": URI}, {"name": "x", "ldapUri": URI}, {"name": "default", "ldapUri": URI}))
    assert str(refused.value) == (
        "directoryService.directories[2].name: directoryService.directories[0] is also called default. "
        "Give each directory a name of its own."
    )
    objects(with_directories({"ldapUri": URI}, {"enabled": False}))


@pytest.mark.parametrize("schema", ["posix", "rfc2308", "ad"])
def test_an_unknown_schema_is_refused(schema: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="schema"):
        with_directories({"ldapUri": URI, "schema": schema})


def test_a_disabled_directory_may_be_anything() -> None:
    made = with_directories({"enabled": False, "ldapUri": "nonsense"})
    assert directories.enabled(made) == ()
    assert sudoers({"enabled": False, "ldapUri": URI, "sudoGroups": ["x"]}) == ""


def test_a_secret_may_hold_the_address() -> None:
    assert passwords({"user": {"existingSecret": "ldap"}}) == ""


def test_logins_know_how_each_directory_is_reached() -> None:
    both = passwords(
        {"name": "a", "ldapUri": f"{URI}, ldap://second.example.com:3389"},
        {"name": "b", "ldapUri": "ldap://b", "startTLS": False},
        {"name": "c", "enabled": False, "ldapUri": "ldap://c"},
    )
    assert both == (f"a\ttls\t{URI}\na\tstarttls\tldap://second.example.com:3389\nb\tplain\tldap://b\n")


def test_additional_lines_go_before_values() -> None:
    lines = "# a comment\n[domain/default]\nldap_uri = ldap://two\nldap_backup_uri=ldaps://three\nLDAP_ID_USE_START_TLS = False\n"
    assert passwords({"ldapUri": "ldap://one", "additionalConfig": lines}) == (
        "default\tplain\tldap://two\ndefault\ttls\tldaps://three\n"
    )


def test_sudo_is_for_groups_of_all_directories_and_of_each() -> None:
    found = sudoers(
        {"ldapUri": URI, "sudoGroups": ["admins", "wheel"]},
        {"name": "b", "ldapUri": URI, "sudoGroups": []},
        sudoGroups=["wheel", "Domain Admins", "", "a=b(c)"],
    )
    assert found == (
        "%wheel ALL=(ALL:ALL) NOPASSWD: ALL\n"
        "%Domain\\ Admins ALL=(ALL:ALL) NOPASSWD: ALL\n"
        "%a\\=b\\(c\\) ALL=(ALL:ALL) NOPASSWD: ALL\n"
        "%admins ALL=(ALL:ALL) NOPASSWD: ALL\n"
    )


@pytest.mark.parametrize("evil", ["x ALL=(ALL) ALL\n%y", "x\\", "a b", "é", "x\ty", "!x", "a/b", "x\r"])
def test_no_group_begins_a_line_of_its_own(evil: str) -> None:
    try:
        text = sudoers(sudoGroups=[evil])
    except (Refusal, msgspec.ValidationError):
        return
    (line,) = text.splitlines()
    name, _, rest = line.replace("\\\\", "").replace("\\ ", "").partition(" ")
    assert name.startswith("%")
    assert rest == "ALL=(ALL:ALL) NOPASSWD: ALL"
