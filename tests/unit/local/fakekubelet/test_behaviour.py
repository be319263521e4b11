import pytest
from hypothesis import given, strategies as st

from sunk.local.fakekubelet.behaviour import BadAnnotation, Behaviour, annotations, key, overridden, seconds
from sunk.local.fakekubelet.settings import Settings
from sunk.model.refusal import Refusal


@pytest.mark.parametrize(
    ("text", "value"), [("500ms", 0.5), ("2s", 2), ("1.5m", 90), ("1h", 3600), ("3", 3), ("0s", 0)]
)
def test_durations_are_read(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "s", "-1s", "2 parsecs", "1e3s", "2s2s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(BadAnnotation, match="write it like"):
        seconds(text)


def test_annotations_override_only_what_they_name() -> None:
    overrides = {"fake-kubelet.sunk/start-after": "2s", "fake-kubelet.sunk/refuse": "OutOfcpu", "other/key": "x"}
    assert overridden(Behaviour(stop_after=7.0), overrides) == Behaviour(
        start_after=2.0, stop_after=7.0, refuse="OutOfcpu"
    )


def test_a_wish_that_means_nothing_is_refused_with_those_that_do() -> None:
    with pytest.raises(BadAnnotation, match=r"known: .*start-after"):
        overridden(Behaviour(), {"fake-kubelet.sunk/start-afer": "2s"})


def test_a_wish_is_spelled_as_its_annotation() -> None:
    assert annotations(start_after="2s", silent=None) == {key("start-after"): "2s", key("silent"): None}


@given(st.integers(2, 64_000))
def test_every_node_has_third_and_fourth_octets_of_its_own(count: int) -> None:
    settings = Settings(nodes=count)
    first, last = settings.address_of(0).split("."), settings.address_of(count - 1).split(".")
    assert first[2:] != last[2:]
    assert all(0 <= int(octet) <= 255 for octet in last)


def test_no_two_of_the_largest_fleet_share_an_address() -> None:
    settings = Settings(nodes=64_000)
    assert len({settings.address_of(number) for number in range(64_000)}) == 64_000


def test_too_large_a_fleet_is_refused() -> None:
    with pytest.raises(Refusal, match="start several fleets"):
        Settings(nodes=64_001)


def test_an_address_that_is_the_same_for_all_is_refused() -> None:
    with pytest.raises(Refusal, match=r"\{high\} and \{low\}"):
        Settings(nodes=2, address="10.0.0.1")
