"""How what is hard to believe is called, so that a person can accept just that."""

from hypothesis import given, strategies as st

from sunk.kube.resource import Key
from sunk.slurm.mirror.confidence import Suspicion
from sunk.syncer.visibility.acceptance import RECENT, OfferedWords, accept_command, identity

texts = st.text(max_size=20)
suspicions = st.builds(
    Suspicion, since=st.floats(0, 1e6), reason=texts, missing=st.frozensets(st.text(max_size=4) | st.integers(0, 9))
)


def lost(*names: str, reason: str = "2 of 3 nodes disappeared at once", since: float = 0.0) -> Suspicion:
    return Suspicion(since=since, reason=reason, before=3, missing=frozenset(names))


@given(st.lists(suspicions, max_size=3))
def test_the_name_follows_from_what_is_told_and_not_from_when_or_in_which_order(found: list[Suspicion]) -> None:
    again = [Suspicion(since=0.0, reason=one.reason, missing=one.missing) for one in reversed(found)]
    assert identity(found) == identity(again)


def test_others_who_are_missing_have_another_name() -> None:
    assert len({identity(some) for some in ([lost("a", "b")], [lost("a", "c")], [lost("a")], [])}) == 4


def test_one_more_suspicion_has_another_name() -> None:
    jobs = lost("1", reason="1 of 1 jobs disappeared at once")
    assert identity([lost("a")]) != identity([lost("a"), jobs])


def explained(first: int, *, of: int = 2000) -> Suspicion:
    """Jobs that were lost at once, when accounting has explained all below the first of these."""
    left, every = frozenset(range(first, of)), frozenset(range(of))
    reason = f"{of - first} of {of} jobs disappeared at once"
    return Suspicion(since=0.0, reason=reason, before=of, missing=left, lost=every)


def test_a_word_that_was_copied_holds_for_what_accounting_has_left_of_it() -> None:
    offered, word = OfferedWords(), identity([explained(0)])
    assert offered.covers(word, [explained(0)])
    assert identity([explained(500)]) == word
    assert OfferedWords().covers(word, [explained(1500)]), "also in a copy that asked accounting in another order"


def test_a_word_holds_when_one_of_two_suspicions_is_over() -> None:
    offered, both, one = OfferedWords(), [lost("a", "b"), explained(0)], [explained(500)]
    offered.note(both)
    assert offered.covers(identity(both), one)
    assert offered.covers(identity(one), one)
    assert not offered.covers(identity(one), both)


def test_a_word_does_not_hold_for_what_is_lost_later() -> None:
    offered, first = OfferedWords(), [lost("a", "b")]
    offered.note(first)
    assert not offered.covers(identity(first), [lost("a", "b", "c")])
    assert not offered.covers("", [lost("a")])
    offered.note([])
    assert not offered.covers(identity(first), [lost("a")]), "that was another loss"
    assert not offered.covers(identity(first), [])


def test_only_the_last_words_are_remembered() -> None:
    offered, said = OfferedWords(), [[lost(*map(str, range(count)))] for count in range(2, RECENT + 3)]
    for each in said:
        offered.note(each)
    assert not offered.covers(identity(said[0]), [lost("0")])
    assert offered.covers(identity(said[-1]), [lost("0")])


def test_where_all_is_well_there_is_nothing_to_name() -> None:
    assert identity([]) == ""


def test_a_person_is_told_what_to_type() -> None:
    found = [lost("a", "b")]
    said = accept_command(found, cluster=Key("here", "big"))
    assert said == (f"kubectl annotate -n here slurmcluster big sunk.coreweave.com/accept-suspicion={identity(found)}")
