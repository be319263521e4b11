"""Who wins, and what is published of it."""

from typing import Any

from msgspec import structs

from sunk.directory.users import files
from sunk.directory.users.merge import Local, Source, local, merge
from sunk.directory.users.records import Content, Group, User
from sunk.model.contract import people

LINE = "root2:x:5000:5000::/home/r:/bin/sh\n"


def alice(uid: int = 1001, **changes: Any) -> User:
    return structs.replace(User("alice", uid, 1001, "", "/home/alice", "/bin/sh", b"uid=alice"), **changes)


def bob(uid: int = 1002, gid: int = 1001) -> User:
    return User("bob", uid, gid, "", "/home/bob", "/bin/sh", b"uid=bob")


def source(name: str, *found: User | Group, sudo: tuple[str, ...] = ()) -> Source:
    users = tuple(each for each in found if isinstance(each, User))
    groups = tuple(each for each in found if isinstance(each, Group))
    return Source(name, Content(users, groups), sudo)


def test_values_win_over_directories_and_the_first_directory_over_the_second() -> None:
    values = local("alice:x:7000:7000::/h:/bin/sh\n", "g:x:7000:alice\n")
    merged = merge(
        values,
        [
            source("one", alice(), bob(), Group("g", 2000), Group("h", 2001)),
            source("two", bob(1003), User("carol", 1002, 1001), User("dora", 1004, 1001), Group("i", 2001)),
        ],
    )
    assert [(name, user.name, user.uid) for name, user in merged.users] == [("one", "bob", 1002), ("two", "dora", 1004)]
    assert [(name, group.name) for name, group in merged.groups] == [("one", "h")]
    one, two = merged.tallies["one"], merged.tallies["two"]
    assert (one.users, one.groups, one.skipped) == (1, 1, 2)
    assert two.skipped == 3
    assert "user alice: users in the values has a user of this name" in one.examples
    assert any("uid 1002 is that of bob" in example for example in two.examples)


def test_whoever_is_published_keeps_the_number_against_a_newcomer() -> None:
    both = source("one", User("aaa", 1002, 1001), bob())
    assert [user.name for _, user in merge(Local(), [both], published={"bob": 1002}).users] == ["bob"]
    assert [user.name for _, user in merge(Local(), [both]).users] == ["aaa"]


def test_whoever_is_published_keeps_the_name_against_another_entry_with_the_same_number() -> None:
    """Whose DN counts decides whose password and keys do, and replicas keep no order."""
    evil = alice(dn=b"uid=alice,ou=a", keys=("ssh-ed25519 EVIL",))
    made = files.write(merge(Local(), [source("one", alice())]))
    published, names = files.numbers(made.people), files.names(made.logins)
    for both in ((evil, alice()), (alice(), evil)):
        merged = merge(Local(), [source("one", *both)], published=published, names=names)
        assert [(user.dn, user.keys) for _, user in merged.users] == [(b"uid=alice", ())]
        assert merged.tallies["one"].skipped == 1
        # Of two newcomers, always the same one.
        assert [user.dn for _, user in merge(Local(), [source("one", *both)]).users] == [b"uid=alice"]
    # One that has moved is still the same user.
    moved = [source("one", alice(dn=b"uid=alice,ou=b"), User("aaa", 1001, 1001))]
    assert [user.name for _, user in merge(Local(), moved, published=published, names=names).users] == ["alice"]


def test_members_are_users_of_the_same_directory_or_of_the_values() -> None:
    values = local("root2:x:5000:5000::/h:/bin/sh", "")
    members = ("alice", "bob", "evil:x", "no\none", "root2")
    merged = merge(values, [source("one", alice(), Group("g", 2000, members)), source("two", bob())])
    assert merged.groups[0][1].members == ("alice", "root2")


def test_a_group_for_sudo_comes_from_its_own_directory_only() -> None:
    sources = [
        source("one", alice(), Group("admins", 2000, ("alice",))),
        source("two", bob(), Group("admins", 2001, ("bob",)), sudo=("admins",)),
    ]
    merged = merge(Local(), sources)
    assert [(name, group.gid) for name, group in merged.groups] == [("two", 2001)]
    assert merged.tallies["one"].skipped == 1
    # Groups of all directories: the first has it.
    assert [name for name, _ in merge(Local(), sources, sudo_groups=("admins",)).groups] == ["one"]


def test_no_other_directory_gets_into_a_group_for_sudo_by_its_number() -> None:
    admins = source("one", alice(), Group("admins", 2000, ("alice",)), sudo=("admins",))
    merged = merge(Local(), [admins, source("two", bob(gid=2000))])
    assert [user.name for _, user in merged.users] == ["alice"]
    assert "sudo" in merged.tallies["two"].examples[0]


def test_a_group_for_sudo_is_guarded_however_the_values_write_its_name() -> None:
    """Sudo itself compares names of groups without regard to case."""
    sources = [
        source("one", alice(), Group("admins", 2000, ("alice",))),
        source("two", bob(), Group("admins", 2001, ("bob",)), sudo=("Admins",)),
    ]
    assert [(name, group.gid) for name, group in merge(Local(), sources).groups] == [("two", 2001)]
    assert [name for name, _ in merge(Local(), sources, sudo_groups=("ADMINS",)).groups] == ["one"]


def test_no_directory_gets_into_a_group_of_the_values_for_sudo_by_its_number() -> None:
    values = local("", "admins:x:2000:\n")
    sources = [source("one", alice(), sudo=("admins",)), source("two", bob(gid=2000))]
    merged = merge(values, sources)
    assert [user.name for _, user in merged.users] == ["alice"]
    assert "sudo" in merged.tallies["two"].examples[0]


def test_lines_of_the_values_that_would_blind_everybody_are_left_out() -> None:
    found = local(
        "a:x:1000:1000::/h\n\nb:x:0:0::/h:/bin/sh\nc:x:1000:1000::/h:/bin/sh\nc:x:1001:1001::/:/\nD:x:1:1:::\n", "g:x\n"
    )
    assert [line[0] for line in found.passwd] == ["c"]
    assert found.passwd[0][1] == "*"
    assert (found.group, found.wrong) == ((), 5)


def test_lines_of_the_values_with_names_of_the_images_are_left_out() -> None:
    """The ConfigMap may be somebody else's, which the operator has not looked at."""
    found = local("slurm:*:5000:5000::/h:/bin/sh", "sudo:*:5000:alice\nslurmers:*:5001:alice\n")
    assert (found.passwd, [line[0] for line in found.group], found.wrong) == ((), ["slurmers"], 2)


def test_files_have_everybody_and_locked_ones_an_expired_line() -> None:
    merged = merge(
        local(LINE, "ops:x:5000:root2\n"),
        [
            source(
                "one",
                alice(keys=("ssh-ed25519 A a",)),
                User("bob", 1002, 1002, locked=True, dn=b"\xff"),
                Group("g", 2000, ("alice",)),
            )
        ],
    )
    made = files.write(merged)
    assert made.people[people.PASSWD] == (
        "root2:*:5000:5000::/home/r:/bin/sh\nalice:*:1001:1001::/home/alice:/bin/sh\nbob:x:1002:1002:::\n"
    )
    assert made.people[people.GROUP] == "ops:*:5000:root2\ng:*:2000:alice\n"
    (line,) = made.people[people.SHADOW].splitlines()
    assert line.split(":") == ["bob", "*", "1", "", "", "", "", "1", ""]
    assert (
        "".join(data[key] for data in made.logins for key in data if key.startswith("keys"))
        == "alice ssh-ed25519 A a\n"
    )


def test_what_is_published_can_be_taken_up_again() -> None:
    contents = {
        "one": Content(
            (alice(keys=("ssh-ed25519 A a", "ssh-rsa B")), User("eve", 1009, 1001, locked=True, dn=b"cn=\xc3\xa4")),
            (Group("g", 2000, ("alice",)), Group("empty", 2001)),
        ),
        "two": Content((bob(),), ()),
    }
    sources = [Source(name, content) for name, content in contents.items()]
    made = files.write(merge(local(LINE, "ops:x:5000:\n"), sources))
    again = files.read(made.people, made.logins)
    assert {name: sorted(content.users, key=lambda user: user.uid) for name, content in again.items()} == {
        name: sorted(content.users, key=lambda user: user.uid) for name, content in contents.items()
    }
    assert again["one"].groups == contents["one"].groups
    assert files.write(merge(local(LINE, "ops:x:5000:\n"), [Source(name, again[name]) for name in contents])) == made
    assert files.numbers(made.people)["alice"] == 1001


def test_nonsense_in_the_config_maps_is_not_taken_up() -> None:
    data = {
        people.PASSWD: "alice:*:0:0:::\nbob:*:1002:1002\ncarol:*:1003:0:::\nroot:*:1004:1004:::\n\n:::\n",
        people.GROUP: "g:*:0:x\nh:*\n",
        people.ORIGINS: '{"one": ["g", "h"]}',
        people.SHADOW: "::",
    }
    names = "".join(f"{name}\tone\tYQ==\n" for name in ("alice", "bob", "carol", "root")) + "x\tone\t!!\n\t\n"
    found = files.read(data, [{f"names-{number}": names} for number in range(people.PARTS)])
    assert found.get("one", Content()) == Content()
    assert files.read({people.ORIGINS: "[1"}, [{}] * people.PARTS) == {}
    assert files.read({}, []) == {}


def test_order_of_entries_changes_no_file() -> None:
    users = [User(f"user{each}", 1000 + each, 1000) for each in range(50)]
    one = files.write(merge(Local(), [Source("one", Content(tuple(users)))]))
    other = files.write(merge(Local(), [Source("one", Content(tuple(reversed(users))))]))
    assert one == other


def test_logins_are_spread_and_stay_where_they_are() -> None:
    parts = [files.part(f"user{each}") for each in range(1000)]
    assert all(150 < parts.count(number) < 350 for number in range(people.PARTS))
    assert files.part("alice") == files.part("alice")


def test_what_does_not_fit_is_noticed() -> None:
    users = tuple(User(f"user{each:05}", 1000 + each, 1000, home="/home/x" * 10) for each in range(10_000))
    made = files.write(merge(Local(), [Source("one", Content(users))]))
    assert made.too_large() > files.LIMIT
    assert files.write(merge(Local(), [Source("one", Content(users[:5000]))])).too_large() == 0
