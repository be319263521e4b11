"""Users and groups, out of files that may hold anything."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st
from msgspec import json

from sunk.model.contract import people
from sunk.model.contract.people import DirectoryReport, PeopleReport
from sunk.syncer.accounts.source import (
    FieldsManager,
    Group,
    People,
    User,
    UserMap,
    WrittenMetadata,
    last_change,
    read,
)

MADE = datetime(2026, 1, 1, tzinfo=UTC)
USERS = "alice:*:1001:1001:Alice:/home/alice:/bin/bash\nbob:*:1002:900::/home/bob:/bin/sh\n"
GROUP = "ml:*:900:alice,carol\nalice:*:1001:\n"


def user_map(changed: float | None = None, **data: str) -> UserMap:
    times = (MADE, *(() if changed is None else (MADE + timedelta(seconds=changed),)))
    meta = WrittenMetadata(
        name="x", namespace="here", creation_timestamp=MADE, managed_fields=tuple(map(FieldsManager, times))
    )
    return UserMap(metadata=meta, data=data)


def test_users_of_the_values_are_all_there_are_without_a_directory() -> None:
    found = read(directory=None, users=user_map(passwd=USERS, group=GROUP), directories=())
    assert found.users == {"alice": User(1001, 1001), "bob": User(1002, 900)}
    assert found.groups == {"ml": Group(900, frozenset({"alice", "carol"})), "alice": Group(1001, frozenset())}
    assert found.complete


def test_what_the_agent_has_written_replaces_them() -> None:
    line = "carol:*:5000:5000::/:/bin/sh\n"
    agent = user_map(passwd=line, group="", report=report(DirectoryReport("campus", people.AVAILABLE)))
    found = read(directory=agent, users=user_map(passwd=USERS), directories=["campus"])
    assert (set(found.users), found.complete) == ({"carol"}, True)


def report(*directories: DirectoryReport) -> str:
    return json.encode(PeopleReport(directories=directories)).decode()


@pytest.mark.parametrize(
    ("told", "complete"),
    [
        ((), False),
        ((DirectoryReport("campus", people.AVAILABLE),), False),
        ((DirectoryReport("campus", people.AVAILABLE), DirectoryReport("guests", people.AVAILABLE)), True),
        ((DirectoryReport("campus", people.AVAILABLE), DirectoryReport("guests", people.UNREACHABLE)), False),
        ((DirectoryReport("campus", people.AVAILABLE), DirectoryReport("guests", people.REFUSED, users=3)), True),
        ((DirectoryReport("campus", people.SUSPECT, groups=1), DirectoryReport("guests", people.AVAILABLE)), True),
    ],
)
def test_a_directory_that_was_never_read_may_have_anybody(
    told: tuple[DirectoryReport, ...],
    complete: bool,  # noqa: FBT001 - a case of the table
) -> None:
    """Of one that is down by now the agent has published what it had."""
    agent = user_map(passwd=USERS, report=report(*told))
    assert read(directory=agent, users=None, directories=["campus", "guests"]).complete is complete


def test_a_report_that_cannot_be_read_says_nothing() -> None:
    for text in ("", "{", "[]", '{"directories": 7}'):
        found = read(directory=user_map(passwd=USERS, report=text), users=None, directories=["campus"])
        assert (set(found.users), found.complete) == ({"alice", "bob"}, False)


def test_before_the_agent_has_written_nothing_is_complete() -> None:
    for agent in (None, user_map(), user_map(report="{}")):
        found = read(directory=agent, users=user_map(passwd=USERS), directories=["campus"])
        assert (set(found.users), found.complete) == ({"alice", "bob"}, False)
    assert read(directory=None, users=None, directories=()) == People(complete=False)


def test_an_agent_that_is_switched_off_leaves_the_values() -> None:
    assert read(directory=None, users=user_map(passwd=USERS), directories=()).complete


def test_members_are_those_who_are_listed_and_exist_and_whose_primary_group_it_is() -> None:
    found = read(directory=None, users=user_map(passwd=USERS, group=GROUP), directories=())
    assert found.members("ml") == frozenset({"alice", "bob"})
    assert found.members("") == frozenset({"alice", "bob"})
    assert found.members("none") is None


@pytest.mark.parametrize(
    "line",
    [
        "",
        "alice",
        "alice:*:1001:1001::/home",
        "alice:*:1001:1001::/home:/bin/sh:more",
        "Alice:*:1001:1001::/:/bin/sh",
        "al ice:*:1001:1001::/:/bin/sh",
        "a';drop table user_table;:*:1001:1001::/:/bin/sh",
        "-alice:*:1001:1001::/:/bin/sh",
        f"{'a' * 33}:*:1001:1001::/:/bin/sh",
        "alice:*:-1:1001::/:/bin/sh",
        "alice:*:0:0::/:/bin/sh",
        "alice:*:499:1001::/:/bin/sh",
        "alice:*:4294967295:1001::/:/bin/sh",
        "alice:*:65534:1001::/:/bin/sh",
        "root:*:5000:5000::/:/bin/sh",
        "slurm:*:5000:5000::/:/bin/sh",
        "alice:*:²:1001::/:/bin/sh",
        f"alice:*:{'1' * 5000}:1001::/:/bin/sh",
        "+::::::",
    ],
)
def test_a_line_that_makes_no_sense_is_left_out_and_the_others_are_read(line: str) -> None:
    text = f"{line}\nbob:*:1002:900::/home/bob:/bin/sh\n"
    assert read(directory=None, users=user_map(passwd=text), directories=()).users.keys() == {"bob"}


@pytest.mark.parametrize("line", ["ml", "ml:*:900", "ml:*:x:alice", "m l:*:900:alice", ":*:900:alice", "ml:*:900:a:b"])
def test_a_group_that_makes_no_sense_is_none(line: str) -> None:
    found = read(directory=None, users=user_map(passwd=USERS, group=line), directories=())
    assert found.groups == {}


def test_members_with_odd_names_are_left_out() -> None:
    found = read(directory=None, users=user_map(group="ml:*:900:alice, bob,,x y,O'Brien"), directories=())
    assert found.groups["ml"].members == {"alice", "bob"}


def test_the_first_line_of_a_name_counts() -> None:
    twice = "alice:*:1001:1001::/:/bin/sh\nalice:*:2002:2002::/:/bin/sh\n"
    assert read(directory=None, users=user_map(passwd=twice), directories=()).users["alice"].uid == 1001


@given(st.text(), st.text())
def test_any_text_is_read(passwd: str, group: str) -> None:
    found = read(directory=None, users=user_map(passwd=passwd, group=group), directories=())
    assert all(user.uid >= 500 for user in found.users.values())
    assert found.members("") == frozenset(found.users)


def test_one_that_was_never_changed_was_there_before_slurmctld() -> None:
    assert last_change(directory=None, users=user_map(passwd=USERS)) is None
    assert last_change(directory=None, users=user_map(60, passwd=USERS)) == MADE + timedelta(seconds=60)
    assert last_change(directory=None, users=None) is None


def test_pods_do_not_wait_for_what_the_agent_writes() -> None:
    assert last_change(directory=user_map(passwd=""), users=user_map()) == MADE
    assert last_change(directory=user_map(9, passwd=""), users=user_map()) == MADE + timedelta(seconds=9)
    assert last_change(directory=user_map(9), users=user_map()) is None, "it has written nothing yet"


def test_the_times_of_writes_are_read_from_an_object_as_the_api_server_gives_it() -> None:
    text = """{"metadata": {"name": "slurm-users", "namespace": "x", "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{"manager": "sunk-slurmcluster", "operation": "Apply", "time": "2026-01-01T00:00:00Z"},
        {"manager": "kubectl-edit", "operation": "Update", "time": "2026-01-02T00:00:00Z", "fieldsV1": {}}]},
        "data": {"passwd": ""}}"""
    assert json.decode(text, type=UserMap).changed == datetime(2026, 1, 2, tzinfo=UTC)
