"""How what is hard to believe is called, so that a person can accept just that."""

from hypothesis import given, strategies as st

from sunk.kube.resource import Key
from sunk.slurm.belief import Suspicion
from sunk.syncer.accepting import identity, request

texts = st.text(max_size=20)
suspicions = st.builds(
    Suspicion, since=st.floats(0, 1e6), reason=texts, missing=st.frozensets(st.text(max_size=4) | st.integers(0, 9))
)


def lost(*names: str, reason: str = "2 of 3 nodes are gone at once", since: float = 0.0) -> Suspicion:
    return Suspicion(since=since, reason=reason, before=3, missing=frozenset(names))


@given(st.lists(suspicions, max_size=3))
def test_the_name_follows_from_what_is_told_and_not_from_when_or_in_which_order(found: list[Suspicion]) -> None:
    again = [Suspicion(since=0.0, reason=one.reason, missing=one.missing) for one in reversed(found)]
    assert identity(found) == identity(again)


def test_others_who_are_missing_have_another_name() -> None:
    assert len({identity(some) for some in ([lost("a", "b")], [lost("a", "c")], [lost("a")], [])}) == 4


def test_one_more_suspicion_has_another_name() -> None:
    jobs = lost("1", reason="1 of 1 jobs are gone at once")
    assert identity([lost("a")]) != identity([lost("a"), jobs])


def test_where_all_is_well_there_is_nothing_to_name() -> None:
    assert identity([]) == ""


def test_a_person_is_told_what_to_type() -> None:
    found = [lost("a", "b")]
    said = request(found, cluster=Key("here", "big"))
    assert said == (f"kubectl annotate -n here slurmcluster big sunk.coreweave.com/accept-suspicion={identity(found)}")
