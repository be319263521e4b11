"""The distance between two clocks, of which one tells whole seconds."""

from hypothesis import given, strategies as st

from sunk.model.clocks import Offset

SECONDS = st.floats(0, 1e6, allow_nan=False)


@given(
    ahead=st.floats(-1e5, 1e5, allow_nan=False),
    asked=st.lists(st.tuples(SECONDS, st.floats(0, 2), st.floats(0, 2)), min_size=1, max_size=30),
)
def test_the_true_distance_is_always_within_what_is_held_possible(
    ahead: float, asked: list[tuple[float, float, float]]
) -> None:
    offset = Offset()
    for sent, there, back in asked:
        offset.hear(int((sent + there + ahead) // 1), sent=sent, got=sent + there + back)
        assert offset.least - 1e-6 <= ahead <= offset.most + 1e-6


def test_many_answers_bring_it_below_a_tenth_of_a_second() -> None:
    offset = Offset()
    for number in range(40):
        sent = number * 5.13
        offset.hear(int(sent + 0.01 + 100.4), sent=sent, got=sent + 0.02)
    assert offset.seconds is not None
    assert abs(offset.seconds - 100.4) < 0.1


def test_a_clock_that_was_set_is_learned_again() -> None:
    offset = Offset()
    assert offset.seconds is None
    offset.hear(100, sent=0.0, got=0.1)
    offset.hear(3700, sent=5.0, got=5.1)
    assert offset.seconds is not None
    assert 3694 < offset.seconds < 3696
