"""What the report says, and who is to blame where not everybody fits."""

from pathlib import Path

from sunk.directory.agent import directory_report, largest, named_twice, rest, settings_tried, too_large
from sunk.directory.domain.settings import Values
from sunk.directory.reader import Reader
from sunk.directory.users.merge import Local, Source, merge
from sunk.directory.users.records import Content, Group, User
from sunk.model.cluster.directory import Directory
from sunk.model.contract.people import AVAILABLE, INVALID, UNREACHABLE, fingerprint

FEW = Content((User("alice", 1001, 1001),), (Group("devs", 2000, ("alice",)),))
MANY = Content(tuple(User(f"user{each}", 5000 + each, 1001) for each in range(50)))
MERGED = merge(Local(), [Source("few", FEW), Source("many", MANY)])


def reader(name: str, *, state: str = "", message: str = "") -> Reader:
    made = Reader(
        Values(Directory(name=name), 3), folder=Path("/x"), interval=5, changed=lambda: None, content=Content()
    )
    made.state, made.message = state, message
    return made


def test_the_largest_directory_is_to_blame_first() -> None:
    assert largest(MERGED, besides={}) == "many"
    assert largest(MERGED, besides={"many": ""}) == "few"
    assert largest(MERGED, besides={"many": "", "few": ""}) is None


def test_it_is_told_how_many_would_fit() -> None:
    told = too_large(MERGED, "many", size=1_800_000)
    assert "50 users and 0 groups" in told
    assert "about 25 of these users fit" in told


def test_the_report_counts_what_is_published() -> None:
    found = directory_report(reader("few", state=AVAILABLE), MERGED, {})
    assert (found.name, found.state, found.message, found.users, found.groups) == ("few", AVAILABLE, "", 1, 1)


def test_a_directory_that_does_not_fit_is_invalid_although_it_answers() -> None:
    found = directory_report(reader("many", state=AVAILABLE), MERGED, {"many": "too many"})
    assert (found.state, found.message) == (INVALID, "directoryService.directories[3].user.searchBase: too many")


def test_one_whose_first_read_has_not_ended_is_not_reached_yet() -> None:
    found = directory_report(reader("few"), MERGED, {})
    assert found.state == UNREACHABLE
    assert found.message.startswith("directoryService.directories[3].ldapUri: ")


def test_a_name_that_another_has_is_invalid() -> None:
    found = named_twice(2, Directory(name="few"))
    assert (found.state, found.message) == (
        INVALID,
        "directoryService.directories[2].name: another directory is called few: rename one",
    )


def test_a_first_read_that_hangs_is_waited_for_and_then_no_reason_to_hurry() -> None:
    assert rest(30, patience=12.5) == 12.5
    assert rest(5, patience=12.5) == 5
    for over in (0.0, -0.01, -600.0):
        assert rest(30, patience=over) == 30


def test_what_a_person_accepts_is_seen_soon_however_seldom_directories_are_read() -> None:
    assert rest(3600, patience=0, suspect=True) == 60
    assert rest(30, patience=0, suspect=True) == 30
    assert rest(3600, patience=12.5, suspect=True) == 12.5


def test_settings_are_reported_when_each_directory_has_been_tried_with_them() -> None:
    """Or the condition would say of the values of now what holds for those of before."""
    tried, other = reader("few", state=AVAILABLE), reader("many", state=AVAILABLE)
    tried.is_current = True
    assert settings_tried("new", previous="old", readers=(tried, other), patience=20) == "old"
    assert settings_tried("new", previous="old", readers=(tried,), patience=20) == fingerprint("new")
    # A directory that hangs does not keep the operator waiting for ever.
    assert settings_tried("new", previous="old", readers=(tried, other), patience=0) == fingerprint("new")
