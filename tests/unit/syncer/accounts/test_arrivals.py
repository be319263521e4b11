"""When a new user gets an account, and whom slurmctld has to be told about."""

from sunk.slurm.records import KnownUser
from sunk.syncer.accounts.arrivals import DOUBT, HELPLESS, SETTLE, Arrivals, Strangers, unknown
from sunk.syncer.accounts.source import User

ALICE, BOB = User(1001, 1001), User(1002, 1002)


def test_who_is_new_settles_after_a_while() -> None:
    arrivals = Arrivals()
    arrivals.note({"alice": ALICE}, since=-float("inf"))
    arrivals.note({"alice": ALICE, "bob": BOB}, since=1000.0)
    assert arrivals.settled(now=1001) == {"alice"}
    assert arrivals.next(now=1001) == 1000 + SETTLE
    assert arrivals.settled(now=1000 + SETTLE) == {"alice", "bob"}
    assert arrivals.next(now=1000 + SETTLE) is None


def test_another_change_does_not_make_those_wait_who_are_there() -> None:
    arrivals = Arrivals()
    arrivals.note({"alice": ALICE}, since=0.0)
    for now in range(10, 200, 10):
        arrivals.note({"alice": ALICE, "bob": BOB}, since=float(now))
    assert arrivals.settled(now=200) == {"alice", "bob"}


def test_another_uid_is_another_user() -> None:
    arrivals = Arrivals()
    arrivals.note({"alice": ALICE}, since=0.0)
    arrivals.note({"alice": User(7777, 1001)}, since=500.0)
    assert arrivals.settled(now=501) == frozenset()


def test_who_comes_back_has_to_wait_again() -> None:
    arrivals = Arrivals()
    arrivals.note({"alice": ALICE}, since=0.0)
    arrivals.note({}, since=100.0)
    arrivals.note({"alice": ALICE}, since=200.0)
    assert arrivals.settled(now=201) == frozenset()


def test_slurmctld_has_to_know_uid_and_default_account_of_those_who_have_one() -> None:
    users = {"alice": ALICE, "bob": BOB, "carol": User(1003, 1), "dave": User(1004, 1), "erin": User(1005, 1)}
    known = {
        "alice": KnownUser("alice", 1001, "lab"),
        "bob": KnownUser("bob", None, ""),
        "carol": KnownUser("carol", 5, "lab"),
        "erin": KnownUser("erin", 1005, ""),
    }
    found = unknown(users, given=[*users, "gone"], defaults=["erin"], known=known)
    assert found == {"bob": "no uid", "carol": "uid 5", "dave": "no uid", "erin": "no default account"}
    assert unknown(users, given=["erin"], defaults=[], known=known) == {}, "slurmdbd gave none either"
    assert unknown(users, given=[], defaults=[], known={}) == {}


def test_slurmctld_is_reconfigured_once_for_each_and_not_at_once() -> None:
    strangers = Strangers()
    strangers.note(["alice"], now=0)
    assert strangers.reconfigure(now=1) == ()
    strangers.note(["alice", "bob"], now=DOUBT)
    assert strangers.reconfigure(now=DOUBT) == ("alice",)
    strangers.note(["alice", "bob"], now=2 * DOUBT)
    assert strangers.reconfigure(now=2 * DOUBT) == ("bob",)
    for now in range(100, 2000, 100):
        strangers.note(["alice", "bob"], now=now)
        assert strangers.reconfigure(now=now) == ()


def test_where_that_does_not_help_it_is_said() -> None:
    strangers = Strangers()
    strangers.note(["alice"], now=0)
    strangers.reconfigure(now=DOUBT)
    assert strangers.helpless(now=DOUBT + 1) == ()
    assert strangers.helpless(now=DOUBT + HELPLESS) == ("alice",)
    strangers.note([], now=DOUBT + HELPLESS)
    assert strangers.helpless(now=10_000) == ()
