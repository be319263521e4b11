"""Which certificate is in force, and when another is made."""

from datetime import UTC, datetime, timedelta

from hypothesis import given, strategies as st

from sunk.operator.slurmcluster.rollout.certificaterule import (
    LIFE,
    LOOKED_AT,
    REACHES_PODS,
    RENEWED,
    IssuedCertificate,
    plan,
)

NOW = datetime(2027, 3, 1, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=10)
MOMENT = timedelta(seconds=1)


def certificate(name: str = "a", *, left: timedelta = LIFE, **state: object) -> IssuedCertificate:
    given = {"published": LONG_AGO, "lost": False} | state
    return IssuedCertificate(id=name, ca=f"ca of {name}\n", not_after=NOW + left, **given)  # type: ignore[arg-type]


def test_the_first_is_made_at_once_and_served_without_a_wait() -> None:
    assert plan((), now=NOW).issue
    first = plan([certificate(published=None)], now=NOW)
    assert first.active == "a"
    assert not first.issue
    assert [each.id for each in first.unpublished] == ["a"]


def test_as_long_as_pods_know_none_it_is_the_one_that_is_longest_on_its_way() -> None:
    first = certificate("first", published=NOW - timedelta(seconds=90))
    assert plan([first, certificate("second", published=NOW)], now=NOW).active == "first"
    assert plan([first, certificate("second", published=None)], now=NOW).active == "first"


def test_another_is_made_when_a_third_of_its_life_is_left() -> None:
    assert not plan([certificate(left=RENEWED + MOMENT)], now=NOW).issue
    assert plan([certificate(left=RENEWED)], now=NOW).issue


def test_the_next_one_is_served_when_its_ca_has_reached_the_pods() -> None:
    old = certificate("old", left=RENEWED)
    for published in (None, NOW, NOW - REACHES_PODS + MOMENT):
        early = plan([certificate("new", published=published), old], now=NOW)
        assert early.active == "old"
        assert not early.issue
        assert early.bundle == "ca of old\nca of new\n"
    assert plan([certificate("new", published=NOW - REACHES_PODS), old], now=NOW).active == "new"


def test_a_ca_is_believed_until_its_certificate_has_expired() -> None:
    new = certificate("new")
    assert plan([certificate("old", left=MOMENT), new], now=NOW).bundle == "ca of old\nca of new\n"
    over = plan([certificate("old", left=timedelta(0)), new], now=NOW)
    assert over.bundle == "ca of new\n"
    assert [each.id for each in over.dropped] == ["old"]


def test_a_lost_one_is_replaced_and_believed_while_syncers_may_serve_with_it() -> None:
    lost = certificate("lost", lost=True)
    alone = plan([lost], now=NOW)
    assert alone.issue
    assert alone.active == "lost", "to mount another Secret now would only make Pods wait"
    both = plan([lost, certificate("new", left=LIFE + MOMENT, published=NOW)], now=NOW)
    assert both.active == "lost"
    assert both.bundle == "ca of lost\nca of new\n"
    later = plan([lost, certificate("new", left=LIFE + MOMENT, published=NOW - REACHES_PODS)], now=NOW)
    assert later.active == "new"
    assert not later.issue


def test_one_that_nobody_was_told_of_and_whose_secret_was_never_made_is_dropped() -> None:
    half = plan([certificate("half", published=None, lost=True), certificate("old", left=RENEWED)], now=NOW)
    assert [each.id for each in half.dropped] == ["half"]
    assert half.bundle == "ca of old\n"
    assert half.active == "old"
    assert half.issue


def test_it_is_looked_at_again_when_something_is_due() -> None:
    assert plan([certificate()], now=NOW).again == LOOKED_AT
    waiting = [certificate("old", left=RENEWED), certificate("new", published=NOW - timedelta(seconds=90))]
    assert plan(waiting, now=NOW).again == timedelta(seconds=30)
    assert plan([certificate("new", published=None)], now=NOW).again == REACHES_PODS
    assert plan([certificate(left=RENEWED + timedelta(seconds=40))], now=NOW).again == timedelta(seconds=40)


SECONDS = st.integers(-200 * 86400, 200 * 86400).map(lambda seconds: timedelta(seconds=seconds))
CERTIFICATES = st.lists(
    st.builds(
        IssuedCertificate,
        id=st.text("0123456789abcdef", min_size=8, max_size=8),
        ca=st.just("ca\n"),
        not_after=SECONDS.map(lambda left: NOW + left),
        published=st.none() | SECONDS.map(lambda ago: NOW - ago),
        lost=st.booleans(),
    ),
    unique_by=lambda each: each.id,
    max_size=5,
)


@given(CERTIFICATES)
def test_what_is_served_is_believed_and_nothing_is_forgotten(known: list[IssuedCertificate]) -> None:
    decided = plan(known, now=NOW)
    assert {*decided.kept, *decided.dropped} == set(known)
    assert decided.active in {each.id for each in decided.kept} | {""}
    assert decided.active or decided.issue
    assert decided.issue or any(not each.lost for each in decided.kept)
    assert timedelta(0) < decided.again <= LOOKED_AT


@given(CERTIFICATES)
def test_pods_are_never_shown_one_that_they_do_not_know_while_they_know_another(known: list[IssuedCertificate]) -> None:
    decided = plan(known, now=NOW)
    settled = {each.id for each in decided.kept if each.settled(NOW)}
    assert not settled or decided.active in settled
