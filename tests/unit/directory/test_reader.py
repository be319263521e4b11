"""Pauses, and what is believed."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from sunk.directory.domain.settings import Values
from sunk.directory.failure import Failure
from sunk.directory.reader import LONGEST_RETRY, Reader, pause
from sunk.directory.reading import believe
from sunk.directory.users.records import Consent, Content, Group, User
from sunk.model import loopclock
from sunk.model.cluster.directory import Directory
from sunk.model.contract.people import AVAILABLE, INVALID, SUSPECT, UNREACHABLE

SOME = Content((User("alice", 1001, 1001),))


@given(st.floats(0, 600), st.integers(5, 86_400))
def test_a_directory_spends_at_most_a_twentieth_of_its_time_on_us(seconds: float, interval: int) -> None:
    assert pause(seconds, good=True, changed=False, interval=interval) == max(20 * seconds, interval)
    assert pause(seconds, good=True, changed=True, interval=interval) == max(20 * seconds, min(interval, 60))


@pytest.mark.parametrize("changed", [True, False])
def test_a_failed_read_is_repeated_soon_but_not_by_storm(*, changed: bool) -> None:
    def after(seconds: float, *, interval: float) -> float:
        return pause(seconds, good=False, changed=changed, interval=interval)

    assert (after(0.1, interval=30), after(0.1, interval=3600)) == (30, 60)
    assert (after(6, interval=30), after(6, interval=3600)) == (120, 120)
    # A directory that hangs is asked again within a reasonable time.
    assert after(600, interval=30) == after(600, interval=3600) == LONGEST_RETRY


class Counted(Reader):
    """Instead of reading, it notes when."""

    def __init__(self, folder: Path, *, interval: float) -> None:
        values = Values(Directory(name="corp"), 0)
        super().__init__(values, folder=folder, interval=interval, changed=lambda: None, content=SOME)
        self.times: list[float] = []
        self.ends = AVAILABLE

    async def once(self) -> None:
        self.times.append(loopclock.now())
        self.state = self.ends


@contextmanager
def reading(reader: Reader) -> Iterator[None]:
    task = asyncio.create_task(reader.run())
    try:
        yield
    finally:
        task.cancel()


@pytest.mark.looptime
async def test_a_secret_that_comes_late_is_read_soon_however_seldom_the_directory_is(tmp_path: Path) -> None:
    reader = Counted(tmp_path, interval=3600)
    with reading(reader):
        await asyncio.sleep(1000)
        assert reader.times == [0]
        (tmp_path / "corp/snippets").mkdir(parents=True)
        (tmp_path / "corp/snippets/a.conf").write_text("x")
        await asyncio.sleep(10)
        assert len(reader.times) == 2
        (tmp_path / "corp/snippets/a.conf").write_text("other")
        await asyncio.sleep(30)
        assert len(reader.times) == 2
        await asyncio.sleep(30 + 10)
        assert len(reader.times) == 3
        await asyncio.sleep(3000)
        assert len(reader.times) == 3


@pytest.mark.looptime
async def test_a_directory_that_fails_is_asked_again_within_a_minute(tmp_path: Path) -> None:
    reader = Counted(tmp_path, interval=3600)
    reader.ends = UNREACHABLE
    with reading(reader):
        await asyncio.sleep(190)
        assert reader.times == [0, 60, 120, 180]


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


CONSENT = Consent("-n team configmap slurm-directory")
MANY = tuple(User(f"u{each}", 5000 + each, 1001) for each in range(12))


def in_groups(first: int, second: int = 0) -> Content:
    members = tuple(user.name for user in MANY)
    return Content(MANY, (Group("devs", 2000, members[:first]), Group("ops", 2001, members[:second])))


@pytest.mark.parametrize(("first", "second"), [(0, 0), (5, 0), (0, 4)])
def test_groups_that_lose_most_of_their_members_at_once_are_suspect(first: int, second: int) -> None:
    """A server that withholds members says the same as one where somebody has removed them."""
    lost = 12 - first - second
    with pytest.raises(Failure) as told:
        believe(in_groups(first, second), before=in_groups(8, 4), canary="u0", consent=CONSENT)
    assert (told.value.state, told.value.option) == (SUSPECT, "ldap_group_search_base")
    assert told.value.words == (
        f"{lost} of 12 memberships of groups are gone at once: nothing is changed. Check the directory. If this is meant: "
        f"kubectl annotate --overwrite -n team configmap slurm-directory sunk.coreweave.com/accept-loss={lost}"
    )
    consent = replace(CONSENT, accepted=lost)
    believe(in_groups(first, second), before=in_groups(8, 4), canary="u0", consent=consent)
    with pytest.raises(Failure):
        believe(
            in_groups(first, second), before=in_groups(8, 4), canary="u0", consent=replace(consent, accepted=lost - 1)
        )


def test_groups_that_lose_a_few_or_less_than_half_are_believed() -> None:
    believe(in_groups(0), before=in_groups(5), canary="")
    believe(in_groups(6), before=in_groups(12), canary="")
    # Another name, and members that are there no more, are no loss of members.
    renamed = Content(MANY, (Group("developers", 2000, in_groups(12).groups[0].members),))
    believe(renamed, before=in_groups(12), canary="")
    believe(Content(MANY[:2], (Group("devs", 2000, ("u0", "u1")),)), before=in_groups(12), canary="")


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
