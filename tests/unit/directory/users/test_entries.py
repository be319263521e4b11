"""Users and groups out of entries, be they what they may."""

import base64
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.unit.directory.builders import ED25519, NOW, domain, entry, user

from sunk.directory.domain.settings import Domain, Homes
from sunk.directory.ldap.ldif import Entry
from sunk.directory.users import groups
from sunk.directory.users.entries import Entries
from sunk.directory.users.records import Group, User


def taken(*users: Entry, of: Domain | None = None, members: tuple[Entry, ...] = ()) -> Entries:
    found = Entries(of or domain(), now=NOW)
    for each in users:
        found.take_user(each)
    for each in members:
        found.take_group(each)
    return found


def only(of: Domain | None = None, **attributes: Any) -> User:
    found = taken(user("alice", 1001, **attributes), of=of)
    assert found.skips.examples == []
    return found.users[0]


def test_a_user_has_all_fields_of_passwd() -> None:
    found = only(gecos="Alice A.", homeDirectory="/data/alice", loginShell="/bin/zsh", sshPublicKey=f"{ED25519} a@b")
    assert found == User(
        *("alice", 1001, 1000, "Alice A.", "/data/alice", "/bin/zsh", b"uid=alice,ou=people,dc=x", (f"{ED25519} a@b",))
    )


def test_what_is_missing_is_made_up_by_the_values() -> None:
    found = only(cn="Alice")
    assert (found.gecos, found.home, found.shell) == ("Alice", "/home/alice", "/bin/bash")
    forced = only(domain(homes=Homes("/h/%d/%l/%u-%U", "", "/bin/sh", "")), homeDirectory="/x", loginShell="/y")
    assert (forced.home, forced.shell) == ("/h/corp/a/alice-1001", "/bin/sh")


def test_fields_cannot_break_a_line() -> None:
    found = only(gecos="A:B\nroot::0:0:\x00", homeDirectory="/a:b", loginShell="/bin/sh\nevil")
    assert found.gecos == "A B root 0 0"
    assert (found.home, found.shell) == ("/home/alice", "/bin/bash")
    assert len(only(gecos="x" * 5000).gecos) == 256


@pytest.mark.parametrize(
    "home",
    [
        *(
            "/etc/nologin",
            "/usr/local/lib/python3.13/dist-packages/usercustomize",
            "/run/nologin",
            "/root/x",
            "//etc//x",
        ),
        *("/home/../etc/x", "/./etc/x", "/var/run/nologin", "/proc/1", "/etc"),
    ],
)
def test_no_home_is_made_among_the_files_of_the_image(home: str) -> None:
    """Root makes it at the first login and gives it to the user, who could put there what everybody runs."""
    assert only(homeDirectory=home).home == "/home/alice"
    assert only(domain(homes=Homes("%o/cluster", "", "", "")), homeDirectory=home).home == "/cluster"


@pytest.mark.parametrize(
    "home", ["/home/alice", "/var/home/alice", "/usr2/alice", "/data/etc/alice", "/srv/..alice", "/"]
)
def test_other_homes_are_as_the_directory_has_them(home: str) -> None:
    assert only(homeDirectory=home).home == home


@pytest.mark.parametrize(
    "key",
    [
        "root ssh-ed25519 AAAA",
        'command="/bin/sh" ' + ED25519,
        "ssh-ed25519 not-base64!",
        "ssh-ed25519 AAAA",
        ED25519.replace("ssh-ed25519", "ssh-rsa"),
        "",
        b"\xff\xfe",
        "ssh-ed25519 " + "A" * 100_000,
    ],
)
def test_what_is_no_key_is_left_out(key: str | bytes) -> None:
    assert only(sshPublicKey=[key, ED25519]).keys == (ED25519,)


def test_a_key_cannot_bring_another_line() -> None:
    found = only(sshPublicKey=f"{ED25519} a\nroot {ED25519}\n{ED25519}\tb\x0bc")
    assert found.keys == (f"{ED25519} a", f"{ED25519} b")


def test_keys_of_one_user_cannot_fill_the_config_map_of_all() -> None:
    """Many directories let everybody write their own keys."""
    kind = b"ssh-rsa"
    keys = [
        f"ssh-rsa {base64.b64encode(len(kind).to_bytes(4) + kind + bytes([each]) * 9000).decode()}"
        for each in range(64)
    ]
    found = only(sshPublicKey=[*keys, ED25519]).keys
    assert ED25519 in found
    assert sum(map(len, found)) <= 16_384
    # Replicas keep no order, and the ConfigMaps must not change with it.
    assert only(sshPublicKey=[ED25519, *reversed(keys)]).keys == found
    small = [f"{ED25519} {each}" for each in range(1000)]
    assert len(only(sshPublicKey=small).keys) == 64
    assert only(sshPublicKey=small[::-1]).keys == only(sshPublicKey=small).keys


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"uid": "al:ice"}, "lowercase"),
        ({"uid": "alice\nroot"}, "lowercase"),
        ({"uid": "Alice"}, "lowercase"),
        ({"uid": "-rf"}, "lowercase"),
        ({"uid": "a" * 33}, "lowercase"),
        ({"uid": "alice@example.com"}, "userNameAttr"),
        ({"uid": b"\xff\xfe"}, "no name"),
        ({"uid": ""}, "no name"),
        ({"uid": "root"}, "images"),
        ({"uid": "slurm"}, "images"),
        ({"uidNumber": "0"}, "uid 0"),
        ({"uidNumber": "-1"}, "no number"),
        ({"uidNumber": "4294967295"}, "uid 4294967295"),
        ({"uidNumber": "499"}, "uid 499"),
        ({"uidNumber": "64030"}, "uid 64030"),
        ({"uidNumber": "9" * 5000}, "no number"),
        ({"uidNumber": "1e3"}, "no number"),
        ({"uidNumber": "١٠٠١"}, "no number"),
        ({"uidNumber": []}, "no uid"),
        ({"gidNumber": []}, "no gid"),
        ({"gidNumber": "0"}, "gid 0"),
        ({"gidNumber": "64030"}, "gid 64030"),
    ],
)
def test_whoever_cannot_be_a_user_is_left_out_and_told(changes: dict[str, Any], why: str) -> None:
    found = taken(user("alice", 1001, **changes), user("bob", 1002))
    assert [each.name for each in found.users] == ["bob"]
    assert found.skips.count == 1
    (told,) = found.skips.examples
    assert why in told
    assert told.isprintable()
    assert len(told) < 300


def test_a_huge_name_is_left_out() -> None:
    found = taken(entry("uid=a," + "ou=x," * 2000, uid="alice", uidNumber=1001, gidNumber=1001))
    assert found.users == []


def test_only_some_examples_are_kept() -> None:
    found = taken(*(user(f"A{number}", 1000 + number) for number in range(100)))
    assert (found.skips.count, len(found.skips.examples)) == (100, 10)


def test_the_examples_do_not_depend_on_the_order_of_entries() -> None:
    """They are published: a server that keeps no order must not make the agent write at every read."""
    wrong = [user(f"A{number}", 1000 + number) for number in range(100)]
    assert taken(*wrong).skips.examples == taken(*wrong[::-1]).skips.examples


def test_an_entry_that_is_sent_twice_counts_once() -> None:
    """As it is where search bases overlap, or where it moves while the server sends its pages."""
    found = taken(user("alice", 1001), user("alice", 1001, gecos="later"), entry("UID=alice, ou=people,dc=x"))
    assert [each.name for each in found.users] == ["alice"]
    assert found.skips.count == 0


def test_the_group_users_of_debian_is_possible() -> None:
    assert only(gidNumber="100").gid == 100


def test_numbers_out_of_the_range_that_was_asked_for_are_not_told() -> None:
    of = domain(min_id=5000, max_id=6000)
    found = taken(user("a", 1001), user("b", 5001, gidNumber=5000), user("c", 9001), of=of)
    assert ([each.name for each in found.users], found.skips.count) == (["b"], 0)


def test_groups_are_bound_to_that_range_too() -> None:
    """As in sssd. A range is how directories are kept from each other, and a number of a group opens files as well."""
    groups_there = tuple(entry(f"cn=g{gid},dc=x", cn=f"g{gid}", gidNumber=gid) for gid in (2000, 5500, 6001))
    of = domain(min_id=5000, max_id=6000)
    found = taken(user("a", 5001, gidNumber=5000), user("b", 5002, gidNumber=2000), of=of, members=groups_there)
    assert [each.name for each in found.users] == ["a"]
    assert [each.name for each in groups.resolve(found, members_are_names=True)] == ["g5500"]
    assert found.skips.examples == ["user b: gid 2000 is not between min_id and max_id"]


def test_names_of_active_directory_are_lowered() -> None:
    of = domain("AD")
    found = taken(entry("CN=Alice,DC=x", sAMAccountName="Alice", uidNumber=1001, gidNumber=1001), of=of)
    assert found.users[0].name == "alice"


def test_of_several_names_the_one_in_the_dn_counts() -> None:
    assert only(uid=["zoe", "alice", "aaa"]).name == "alice"
    other = taken(entry("cn=x,dc=x", uid=["zoe", "bob"], uidNumber=1001, gidNumber=1001))
    assert other.users[0].name == "bob"


@pytest.mark.parametrize(
    ("attributes", "locked"),
    [
        ({"userAccountControl": 512}, False),
        ({"userAccountControl": 514}, True),
        ({"userAccountControl": "x"}, False),
        ({"nsAccountLock": "TRUE"}, True),
        ({"nsAccountLock": "false"}, False),
        ({"pwdAccountLockedTime": "000001010000Z"}, True),
        ({"pwdAccountLockedTime": "20260101000000Z"}, False),
        ({"shadowExpire": -1}, False),
        ({"shadowExpire": 0}, True),
        ({"shadowExpire": 20000}, True),
        ({"shadowExpire": 99999}, False),
        ({"shadowExpire": "9" * 5000}, False),
        ({"krbPrincipalExpiration": "20250101000000Z"}, True),
        ({"krbPrincipalExpiration": "20300101000000Z"}, False),
        ({"krbPrincipalExpiration": "nonsense"}, False),
        ({"accountExpires": 0}, False),
        ({"accountExpires": 9223372036854775807}, False),
        ({"accountExpires": 132000000000000000}, True),
        ({"accountExpires": 150000000000000000}, False),
    ],
)
def test_locked_accounts_are_known_and_have_no_keys(attributes: dict[str, Any], locked: bool) -> None:  # noqa: FBT001
    found = only(sshPublicKey=ED25519, **attributes)
    assert (found.locked, found.keys) == (locked, () if locked else (ED25519,))


def test_the_access_filter_locks_all_others() -> None:
    found = taken(user("alice", 1001, sshPublicKey=ED25519), user("bob", 1002, sshPublicKey=ED25519))
    found.deny_all_but({"uid=alice\x00ou=people\x00dc=x"})
    assert [(each.name, each.locked, bool(each.keys)) for each in found.users] == [
        *(("alice", False, True), ("bob", True, False)),
    ]


def test_groups_of_rfc2307_name_their_members() -> None:
    group = entry("cn=g,dc=x", cn="g", gidNumber=2000, memberUid=["bob", "alice", "alice", "x\ny"])
    assert groups.resolve(taken(members=(group,)), members_are_names=True) == (
        Group("g", 2000, ("alice", "bob", "x\ny")),  # the last is nobody's name, and `merge` leaves it out
    )


def test_groups_without_a_number_are_none_but_their_members_count() -> None:
    users = (user("alice", 1001), user("bob", 1002))
    found = taken(
        *users,
        of=domain("rfc2307bis"),
        members=(
            entry("cn=inner,dc=x", cn="inner", member=["uid=alice,ou=people,dc=x", "CN=Outer,dc=x"]),
            entry("cn=outer,dc=x", cn="outer", gidNumber=2000, member=["UID=Bob, ou=people,dc=x", "cn=inner,dc=x"]),
            entry("cn=self,dc=x", cn="self", gidNumber=2001, member=["cn=self,dc=x", "cn=nobody,dc=x"]),
        ),
    )
    assert groups.resolve(found, members_are_names=False) == (
        *(Group("outer", 2000, ("alice", "bob")), Group("self", 2001)),
    )
    assert found.skips.count == 0


def test_a_chain_of_groups_has_an_end() -> None:
    chain = tuple(
        entry(f"cn=g{each},dc=x", cn=f"g{each}", gidNumber=2000 + each, member=[f"cn=g{each + 1},dc=x"])
        for each in range(2000)
    )
    found = taken(of=domain("rfc2307bis"), members=chain)
    assert len(groups.resolve(found, members_are_names=False)) == 2000
    assert found.skips.count > 0


def test_too_many_members_are_noticed_before_they_fill_the_memory() -> None:
    users = tuple(user(f"user{each:05}", 10_000 + each) for each in range(2000))
    everybody = entry("cn=all,dc=x", cn="all", member=[each.dn for each in users])
    nests = tuple(
        entry(f"cn=g{each},dc=x", cn=f"g{each}", gidNumber=2000 + each, member=["cn=all,dc=x"]) for each in range(1000)
    )
    found = taken(*users, of=domain("rfc2307bis"), members=(everybody, *nests))
    with pytest.raises(groups.TooManyMembers):
        groups.resolve(found, members_are_names=False)


def test_members_that_were_kept_back_are_asked_for() -> None:
    found = taken(user("alice", 1001), user("bob", 1002), of=domain("rfc2307bis"))
    first = Entry(
        b"cn=g,dc=x", {"cn": [b"g"], "gidnumber": [b"2000"], "member;range=0-1499": [b"uid=alice,ou=people,dc=x"]}
    )
    found.take_group(first)
    (more,) = found.ranges
    assert (more.dn, more.start) == (b"cn=g,dc=x", 1500)
    found.ranges.clear()
    found.take_members(Entry(b"CN=g,dc=x", {"member;range=1500-*": [b"uid=bob,ou=people,dc=x"]}))
    assert found.ranges == []
    assert groups.resolve(found, members_are_names=False)[0].members == ("alice", "bob")


@pytest.mark.parametrize("name", ["root", "sudo", "wheel", "staff", "a:b", ""])
def test_groups_that_cannot_be_are_told(name: str) -> None:
    found = taken(members=(entry("cn=x,dc=x", cn=name, gidNumber=2000),))
    assert groups.resolve(found, members_are_names=True) == ()
    assert found.skips.count == 1


@given(
    st.dictionaries(
        st.sampled_from(
            ["uid", "uidNumber", "gidNumber", "gecos", "homeDirectory", "loginShell", "sshPublicKey", "cn"]
        ),
        st.lists(st.binary(max_size=40) | st.sampled_from([b"alice", b"1001", b"/home/a"]), max_size=3),
    )
)
def test_no_entry_makes_a_line_that_breaks_a_file(attributes: dict[str, list[bytes]]) -> None:
    found = taken(entry("uid=x,dc=x", **attributes))
    for each in found.users:
        fields = (each.name, each.gecos, each.home, each.shell, *each.keys)
        assert all("\n" not in field and "\0" not in field for field in fields)
        assert all(":" not in field for field in fields[:4])
