"""Who somebody is, out of the files that Pods have."""

import base64
from typing import Any

import pytest

from sunk.insight.user.person import (
    VALUES,
    Group,
    Person,
    Published,
    checked,
    day_of,
    find,
    password_ways,
    public_key,
    report_of,
    sudo_groups,
)
from sunk.model.refusal import Refusal

ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJMqjmTtHI9nSCrn4m/tVYDgZBuBLjQxSZdxrJHlvyIs"
FINGERPRINT = "SHA256:AZk1uYgV/hi5oCAwLv1OZjwDQ3j3bewOC8MUq6dL7Rs"
DN = "uid=bob,ou=people,dc=example,dc=com"
NAMES = f"bob\tcampus\t{base64.b64encode(DN.encode()).decode()}\n"
USERS = "alice:*:2001:2001:Alice:/home/alice:/bin/bash\nbob:*:3001:3000:Bob B:/home/bob:/bin/zsh\n"
GROUP = "alice:*:2001:\nscience:*:3000:alice\nadmins:*:3100:carol,bob\nbobby:*:3200:bobby\n"


def published(**more: Any) -> Published:
    given: dict[str, Any] = {
        "users": {
            "passwd": USERS.splitlines()[0] + "\n",
            "group": "alice:*:2001:\n",
            "authorized_keys.alice": ED25519,
        },
        "directory": {"passwd": USERS, "group": GROUP, "shadow": "alice:*:1::::::\nbob:*:1::::::\n"},
        "settings": {"sudoers": "%admins ALL=(ALL:ALL) NOUSERS: ALL\n"},
        "logins": ({"names-0": NAMES, "keys-0": f"bob {ED25519} bob@laptop\nbobby {ED25519}\n"}, {}, None, {}),
    }
    return Published(**(given | more))


def person(name: str, **more: Any) -> Person:
    found = find(name, published(**more), today=20_000)
    assert found is not None
    return found


# Names


@pytest.mark.parametrize("name", ["alice", "_svc", "a", "a-b.c_d", "x" * 32])
def test_a_name_that_linux_takes_is_taken(name: str) -> None:
    assert checked(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "-u",
        "--help",
        "1000",
        "a b",
        "a;reboot",
        "$(id)",
        "`id`",
        "a\nb",
        "alice\n",
        "alice\x00",
        "../etc",
        "a/b",
        "a|b",
        "a:b",
        "a=b",
        "a,b",
        "*",
        "é",
        "аlice",
        "x" * 33,
        "x" * 100_000,
        "\x1b[2J",
    ],
)
def test_what_is_no_name_goes_nowhere(name: str) -> None:
    with pytest.raises(Refusal) as refused:
        checked(name)
    assert len(str(refused.value)) < 400
    assert str(refused.value).isprintable()


def test_capital_letters_are_refused_with_the_name_to_use() -> None:
    with pytest.raises(Refusal, match="as in alice"):
        checked("Alice")


# Files


def test_a_user_of_a_directory() -> None:
    bob = person("bob")
    assert (bob.uid, bob.gid, bob.home, bob.shell, bob.gecos) == (3001, 3000, "/home/bob", "/bin/zsh", "Bob B")
    assert (bob.source, bob.dn) == ("campus", DN)
    assert bob.groups == (Group("science", 3000, primary=True), Group("admins", 3100))
    assert bob.sudo == ("admins",)
    assert [(key.fingerprint, key.comment, key.source) for key in bob.keys] == [(FINGERPRINT, "bob@laptop", "campus")]
    assert bob.from_directory
    assert not bob.expired


def test_a_user_of_the_values() -> None:
    alice = person("alice")
    assert (alice.source, alice.dn, alice.sudo) == (VALUES, "", ())
    assert [key.source for key in alice.keys] == [VALUES]
    assert alice.is_in("science")


def test_the_values_win_over_a_directory_that_names_the_same_user() -> None:
    told = f"alice\tcampus\t{base64.b64encode(b'uid=alice').decode()}\n"
    assert person("alice", logins=({"names-0": told},)).source == VALUES


def test_without_a_directory_the_files_of_the_values_count() -> None:
    assert person("alice", directory=None, logins=()).uid == 2001
    assert find("bob", published(directory=None, logins=()), today=1) is None


def test_nobody_is_found_by_half_a_name() -> None:
    for name in ("bo", "ob", "bob:", "alic"):
        assert find(name, published(), today=1) is None


def test_a_primary_group_without_a_name_shows_its_number() -> None:
    assert person("bob", directory={"passwd": USERS, "group": ""}).groups == (Group("", 3000, primary=True),)


@pytest.mark.parametrize(
    ("line", "expired"),
    [
        ("bob:*:1:::::1:", True),
        ("bob:*:1:::::20000:", True),
        ("bob:*:1:::::20001:", False),
        ("bob:*:1::::::", False),
        ("bob:*:1:::::soon:", False),
        ("bob:*", False),
        ("bobby:*:1:::::1:", False),
        ("", False),
    ],
)
def test_an_account_expires_by_its_shadow_line(line: str, expired: bool) -> None:  # noqa: FBT001 - a column
    directory = {"passwd": USERS, "group": GROUP, "shadow": f"{line}\n"}
    assert person("bob", directory=directory).expired is expired


def test_days_are_counted_from_1970() -> None:
    assert day_of(0) == 0
    assert day_of(86_400 * 3 + 5) == 3


@pytest.mark.parametrize(
    "text",
    [
        "bob",
        "bob:*",
        "bob:*:many:3000::/home/bob:/bin/sh",
        "bob:*::3000::/home/bob:/bin/sh",
        "bob:*:-1:3000::/home/bob:/bin/sh",
    ],
)
def test_a_broken_line_is_no_user(text: str) -> None:
    assert find("bob", published(directory={"passwd": text}), today=1) is None


@pytest.mark.parametrize("names", ["bob", "bob\tcampus", "bob\tcampus\tnot base64!\n", "bob\tcampus\tAA==\textra"])
def test_a_broken_line_of_names_says_nothing(names: str) -> None:
    found = person("bob", logins=({"names-0": names},))
    assert found.dn == ""


# Keys


def test_a_fingerprint_is_the_one_of_ssh_keygen() -> None:
    key = public_key(f"{ED25519} me@here", source=VALUES)
    assert key is not None
    assert (key.type, key.fingerprint, key.comment) == ("ssh-ed25519", FINGERPRINT, "me@here")


def test_options_stand_before_a_key() -> None:
    key = public_key(f'restrict,command="echo hi" {ED25519}', source=VALUES)
    assert key is not None
    assert key.fingerprint == FINGERPRINT


@pytest.mark.parametrize(
    "line", ["", "# a comment", f"# {ED25519}", "ssh-ed25519", "ssh-ed25519 !!!", "hello world", "A" * 9]
)
def test_what_is_no_key_is_not_counted(line: str) -> None:
    assert public_key(line, source=VALUES) is None


def test_keys_of_somebody_with_a_longer_name_are_not_taken() -> None:
    assert len(person("bob").keys) == 1


# sudo and the report


def test_groups_of_sudoers_are_read_as_they_are_called() -> None:
    text = '%admins ALL=(ALL:ALL) NOUSERS: ALL\n%domain\\ users ALL=ALL\n"%big boss" ALL=ALL\n%"x y" ALL=ALL\nroot ALL=ALL\n%\n'
    assert [*sudo_groups(Published(settings={"sudoers": text}))] == ["admins", "domain users", "big boss", "x y"]
    assert [*sudo_groups(Published())] == []


def test_sudo_compares_groups_without_regard_to_case() -> None:
    sudoers = {"sudoers": "%Admins ALL=(ALL:ALL) NOPASSWD: ALL\n%#3100 ALL=(ALL:ALL) ALL\n%adminsx ALL=ALL\n"}
    assert person("bob", settings=sudoers).sudo == ("Admins", "#3100")


def test_how_passwords_are_checked() -> None:
    text = "campus\ttls\tldaps://a,ldaps://b\nlabs\tplain\tldap://c\nbroken\n"
    assert password_ways(Published(settings={"passwords": text})) == {"campus": "tls", "labs": "plain"}
    assert password_ways(Published(settings={})) == {}
    assert password_ways(Published()) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"directories": 5}', "null"])
def test_a_report_that_cannot_be_read_is_none(text: str) -> None:
    assert report_of(Published(directory={"report": text})) is None


def test_a_report_is_read() -> None:
    text = '{"directories": [{"name": "campus", "state": "Available", "users": 3}], "written": "2026-01-02T03:04:05Z"}'
    report = report_of(Published(directory={"report": text}))
    assert report is not None
    assert report.directories[0].users == 3
    assert report_of(Published()) is None


@pytest.mark.parametrize("odd", ["²", "1" * 5000, "-1", "x"])
def test_a_number_that_is_none_ends_nothing(odd: str) -> None:
    """The users of the values may be anybody's."""
    group = f"{GROUP}odd:*:{odd}:bob\n"
    bob = person("bob", directory={"passwd": USERS, "group": group, "shadow": f"bob:*:1:::::{odd}:\n"})
    assert [one.name for one in bob.groups] == ["science", "admins"]
    assert not bob.expired
    assert find("bob", published(directory={"passwd": USERS.replace("3001", odd)}), today=0) is None
