"""One directory is read, in all the ways in which it can be reached, answer, and fail to."""

import time
from pathlib import Path

import pytest
from tests.integration.directory.conftest import MakeServer
from tests.integration.directory.corp import client_certificate, read, reader, secrets, values

from sunk.directory.users.records import Group
from sunk.local.certificates import LASTS, PAST
from sunk.local.directory import BASE, GROUPS, PEOPLE, READER, DirectoryServer, entry, group, person
from sunk.model.contract.people import AVAILABLE, INVALID, REFUSED, SUSPECT, UNREACHABLE

HERE = "directoryService.directories[0]"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"


@pytest.mark.parametrize("tls", ["starttls", "ldaps", "plain"])
async def test_users_groups_and_keys_are_read(server: DirectoryServer, tmp_path: Path, tls: str) -> None:
    server.add(person("alice", 1001, sshPublicKey=f"{KEY} a"), person("bob", 1002), group("staffers", 2000, "alice"))
    uri = server.ldaps_uri if tls == "ldaps" else server.uri
    directory = values(server, ldap_uri=uri, start_tls=False if tls == "plain" else None)
    found = await read(directory, secrets(server, tmp_path))
    assert (found.state, found.message) == (AVAILABLE, "")
    assert [(user.name, user.uid, user.keys) for user in found.content.users] == [
        *(("alice", 1001, (f"{KEY} a",)), ("bob", 1002, ())),
    ]
    assert found.content.groups == (Group("staffers", 2000, ("alice",)),)


async def test_the_search_base_is_asked_for(server: DirectoryServer, tmp_path: Path) -> None:
    server.add(person("alice", 1001))
    found = await read(values(server, user={"search_base": None}), secrets(server, tmp_path))
    assert (found.state, len(found.content.users)) == (AVAILABLE, 1)


async def test_groups_by_dn_may_contain_each_other(server: DirectoryServer, tmp_path: Path) -> None:
    alice, bob = f"uid=alice,{PEOPLE}", f"uid=bob,{PEOPLE}"
    odd = f"uid=odd\\, one\\+two,{PEOPLE}"
    server.add(
        person("alice", 1001),
        person("bob", 1002),
        person("odd", 1003, dn=odd, uid=["odd", "odd, one+two"]),
        entry(f"cn=inner,{GROUPS}", objectClass="group", cn="inner", member=[alice, odd, f"cn=outer,{GROUPS}"]),
        entry(
            f"cn=outer,{GROUPS}", objectClass="group", cn="outer", gidNumber=2000, member=[bob, f"cn=inner,{GROUPS}"]
        ),
    )
    directory = values(server, schema="rfc2307bis", group_object_class="group")
    found = await read(directory, secrets(server, tmp_path))
    assert found.content.groups == (Group("outer", 2000, ("alice", "bob", "odd")),)


async def test_users_as_in_active_directory(server: DirectoryServer, tmp_path: Path) -> None:
    alice = f"cn=Alice A,{PEOPLE}"
    server.add(
        entry(
            alice,
            objectClass="user",
            cn="Alice A",
            sn="Alice A",
            sAMAccountName="Alice",
            uidNumber=1001,
            gidNumber=1001,
            userAccountControl=512,
            displayName="Alice",
        ),
        entry(
            f"cn=Bob,{PEOPLE}",
            objectClass="user",
            cn="Bob",
            sn="Bob",
            sAMAccountName="bob",
            uidNumber=1002,
            gidNumber=1001,
            userAccountControl=514,
        ),
        entry(f"cn=Nobody,{PEOPLE}", objectClass="user", cn="Nobody", sn="Nobody", sAMAccountName="NB$"),
        entry(
            f"cn=Ops,{GROUPS}",
            objectClass="group",
            cn="Ops",
            sAMAccountName="Ops",
            gidNumber=2000,
            member=alice.lower(),
        ),
    )
    found = await read(values(server, schema="AD"), secrets(server, tmp_path))
    assert [(user.name, user.gecos, user.locked) for user in found.content.users] == [
        *(("alice", "Alice", False), ("bob", "", True)),
    ]
    assert found.content.groups == (Group("ops", 2000, ("alice",)),)


async def test_hostile_entries_are_left_out(server: DirectoryServer, tmp_path: Path) -> None:
    server.add(
        person("alice", 1001, gecos="A:B", homeDirectory="/a:b"),
        person("zero", 0),
        person("minus", -1),
        person("digits", int("9" * 4000)),
        person("line", 1002, uid="line\nroot:x:0:0::/:/bin/sh", dn=f"cn=line,{PEOPLE}", cn="line"),
        person("colon", 1003, uid="co:lon", dn=f"cn=colon,{PEOPLE}", cn="colon"),
        person("keys", 1004, sshPublicKey=[f"{KEY}\nroot {KEY}", b"\xff\x00", "x" * 200_000]),
        group("many", 2000, *(f"nobody{number}" for number in range(5000)), "alice"),
    )
    found = await read(values(server), secrets(server, tmp_path))
    assert found.state == AVAILABLE
    assert [user.name for user in found.content.users] == ["alice", "keys"]
    assert [(user.gecos, user.home) for user in found.content.users[:1]] == [("A B", "/home/alice")]
    assert found.content.users[1].keys == (KEY,)
    assert found.content.skipped == 5


async def test_access_filters_lock_the_others(server: DirectoryServer, tmp_path: Path) -> None:
    server.add(person("alice", 1001), person("bob", 1002))
    directory = values(server, additional_config="ldap_access_filter = (uid=alice)")
    found = await read(directory, secrets(server, tmp_path))
    assert [(user.name, user.locked) for user in found.content.users] == [("alice", False), ("bob", True)]


async def test_many_users_come_in_pages(server: DirectoryServer, tmp_path: Path) -> None:
    server.add(*(person(f"user{each:04}", 10_000 + each) for each in range(1000)))
    server.add(
        *(
            group(f"group{each:02}", 2000 + each, *(f"user{at:04}" for at in range(each, 1000, 50)))
            for each in range(50)
        )
    )
    found = await read(values(server, additional_config="ldap_page_size = 100"), secrets(server, tmp_path))
    assert (len(found.content.users), len(found.content.groups)) == (1000, 50)
    assert all(len(each.members) == 20 for each in found.content.groups)


async def test_a_part_of_an_answer_is_not_believed(server: DirectoryServer, tmp_path: Path) -> None:
    server.add(*(person(f"user{each}", 10_000 + each) for each in range(20)))
    made = reader(values(server), secrets(server, tmp_path))
    await made.once()
    server.options = [f'limits dn.exact="{READER}" size.soft=5 size.hard=5 size.prtotal=5']
    server.restart()
    await made.once()
    assert made.state == SUSPECT
    assert "limit" in made.message
    assert len(made.content.users) == 20


async def test_a_canary_that_is_gone_keeps_everybody(server: DirectoryServer, tmp_path: Path) -> None:
    server.add(person("alice", 1001), person("canary", 1002))
    made = reader(values(server, user={"canary": "canary"}), secrets(server, tmp_path))
    await made.once()
    assert made.state == AVAILABLE
    server.delete(f"uid=canary,{PEOPLE}", f"uid=alice,{PEOPLE}")
    await made.once()
    assert (made.state, len(made.content.users)) == (SUSPECT, 2)
    assert made.message.startswith(f"{HERE}.user.canary: ")


async def test_an_empty_directory_is_not_believed_where_there_were_users(
    server: DirectoryServer, tmp_path: Path
) -> None:
    server.add(person("alice", 1001))
    made = reader(values(server), secrets(server, tmp_path))
    await made.once()
    server.delete(f"uid=alice,{PEOPLE}")
    await made.once()
    assert (made.state, len(made.content.users)) == (SUSPECT, 1)


@pytest.mark.parametrize("scheme", ["ldap", "ldaps"])
async def test_certificates_that_are_no_good_are_told_in_words(
    server: DirectoryServer, tmp_path: Path, scheme: str
) -> None:
    server.add(person("alice", 1001))
    directory = values(server, ldap_uri=server.uri if scheme == "ldap" else server.ldaps_uri)
    made = reader(directory, secrets(server, tmp_path))
    for hosts, lasts, words in (
        ((), PAST, "has expired"),
        (("ldap.example.com",), LASTS, "another host name"),
        ((), LASTS, ""),
    ):
        server.certify(*hosts, lasts=lasts)
        server.restart()
        await made.once()
        assert made.state == (REFUSED if words else AVAILABLE), made.message
        assert words in made.message
    (tmp_path / "corp" / "tls" / "ca.crt").unlink()
    await made.once()
    assert made.state == INVALID  # the Secret is there no more
    await (bare := reader(values(server, ldap_uri=directory.ldap_uri, ldaps_cert=None), tmp_path)).once()
    assert (bare.state, "unknown CA" in bare.message) == (REFUSED, True)


@pytest.mark.parametrize("scheme", ["ldap", "ldaps"])
async def test_a_server_that_demands_a_certificate(make_server: MakeServer, tmp_path: Path, scheme: str) -> None:
    server = make_server(demand_certificate=True)
    server.add(person("alice", 1001))
    secrets(server, tmp_path)
    directory = values(
        server,
        ldap_uri=server.uri if scheme == "ldap" else server.ldaps_uri,
        user={"bind_dn": None, "existing_secret": None},
    )
    made = reader(directory, tmp_path)
    await made.once()
    assert made.state == REFUSED
    assert made.message.startswith(f"{HERE}.ldapsCert: ")
    assert "client certificate" in made.message
    client_certificate(server, tmp_path)
    await made.once()
    assert (made.state, made.message, len(made.content.users)) == (AVAILABLE, "", 1)


async def test_a_wrong_password_names_the_secret_and_never_itself(server: DirectoryServer, tmp_path: Path) -> None:
    found = await read(values(server), secrets(server, tmp_path, password="Wr0ngOne"))  # noqa: S106
    assert found.state == REFUSED
    assert found.message.startswith(f"{HERE}.user.existingSecret: ")
    assert "Wr0ngOne" not in found.message
    assert "Wr0ngOne" not in server.log()


async def test_a_base_that_is_not_there_is_named(server: DirectoryServer, tmp_path: Path) -> None:
    found = await read(values(server, user={"search_base": f"ou=nowhere,{BASE}"}), secrets(server, tmp_path))
    assert found.state == INVALID
    assert found.message.startswith(f"{HERE}.user.searchBase: ")


async def test_a_server_that_is_down_is_passed_over(
    server: DirectoryServer, make_server: MakeServer, tmp_path: Path
) -> None:
    other = make_server("down")
    other.stop()
    server.add(person("alice", 1001))
    directory = values(server, ldap_uri=f"{other.uri},{server.uri}")
    made = reader(directory, secrets(server, tmp_path))
    await made.once()
    assert (made.state, len(made.content.users)) == (AVAILABLE, 1)
    server.stop()
    await made.once()
    assert (made.state, len(made.content.users)) == (UNREACHABLE, 1)
    assert made.message.count("connection refused") == 2


async def test_a_server_that_hangs_ends_in_time(server: DirectoryServer, tmp_path: Path) -> None:
    server.add(person("alice", 1001))
    directory = values(server, additional_config="ldap_network_timeout = 2\nldap_search_timeout = 2")
    made = reader(directory, secrets(server, tmp_path))
    await made.once()
    server.pause()
    began = time.monotonic()
    await made.once()
    assert (made.state, len(made.content.users)) == (UNREACHABLE, 1)
    assert time.monotonic() - began < 30
    server.resume()
    await made.once()
    assert made.state == AVAILABLE
