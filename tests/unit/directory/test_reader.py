"""Pauses, and what is believed."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from sunk.directory.domain.settings import Values
from sunk.directory.failure import Failure
from sunk.directory.reader import LONGEST_RETRY, Reader, pause
from sunk.directory.reading import believe
from sunk.directory.users.records import Content, Group, User
from sunk.model.cluster.directory import Directory
from sunk.model.contract.people import INVALID, SUSPECT

SOME = Content((User("alice", 1001, 1001),))


@given(st.floats(0, 600), st.integers(5, 86_400))
def test_a_directory_spends_at_most_a_twentieth_of_its_time_on_us(seconds: float, interval: int) -> None:
    assert pause(seconds, good=True, interval=interval) >= max(20 * seconds, interval)


def test_a_failed_read_is_repeated_soon_but_not_by_storm() -> None:
    assert pause(0.1, good=False, interval=30) == 30
    assert pause(40, good=False, interval=30) == 120
    assert pause(600, good=False, interval=30) == LONGEST_RETRY
    assert pause(600, good=False, interval=3600) == 3600


def test_a_canary_that_is_missing_makes_an_answer_suspect() -> None:
    believe(SOME, before=Content(), canary="alice")
    with pytest.raises(Failure, match="bob") as told:
        believe(SOME, before=SOME, canary="bob")
    assert (told.value.state, told.value.option) == (SUSPECT, "canary")


def test_nobody_where_there_were_users_is_suspect() -> None:
    believe(Content(), before=Content(), canary="")
    believe(SOME, before=SOME, canary="")
    with pytest.raises(Failure) as told:
        believe(Content(), before=SOME, canary="")
    assert told.value.state == SUSPECT


@pytest.mark.parametrize("canary", ["", "alice"])
def test_no_groups_where_there_were_some_are_suspect(canary: str) -> None:
    """A canary is a user: it says nothing about the groups, by which people use sudo and have accounts."""
    with_groups = Content(SOME.users, (Group("admins", 2000, ("alice",)), Group("empty", 2001)))
    believe(with_groups, before=SOME, canary=canary)
    believe(Content(SOME.users, with_groups.groups[:1]), before=with_groups, canary=canary)
    with pytest.raises(Failure, match="where there were 2") as told:
        believe(SOME, before=with_groups, canary=canary)
    assert (told.value.state, told.value.option) == (SUSPECT, "ldap_group_search_base")
    # Somebody has deleted the only one.
    believe(SOME, before=Content(SOME.users, with_groups.groups[:1]), canary=canary)


async def test_other_values_are_news_when_they_have_been_tried_even_if_nothing_else_is() -> None:
    told: list[str] = []
    values = Values(Directory(name="corp"), 0)
    reader = Reader(
        values, folder=Path("/nowhere"), interval=5, changed=lambda: told.append(reader.state), content=SOME
    )
    assert not reader.is_current
    for _ in range(2):
        await reader.once()
        assert (reader.is_current, told) == (True, [INVALID])
    reader.adopt(Values(Directory(name="corp", debug_level=1), 0), interval=9)
    assert (reader.is_current, reader.content, reader.interval) == (False, SOME, 9)
    await reader.once()
    assert (reader.is_current, told) == (True, [INVALID, INVALID])
