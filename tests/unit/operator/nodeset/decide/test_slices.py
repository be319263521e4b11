"""Entries in slices: all there, few enough in each, and never missing while they move."""

from hypothesis import given, settings, strategies as st
from msgspec.structs import replace
from tests.unit.operator.nodeset.factories import entry, node_slice, nodeset

from sunk.model.nodeslice import MOST_ENTRIES, Entry
from sunk.objects.nodesets import number_of
from sunk.operator.nodeset.decide.slices import Shard, SliceWrites, added, shards, spread

ENTRIES = [entry(f"gpu-{number:03d}") for number in range(30)]


@st.composite
def layouts(draw: st.DrawFn, *, size: int = 4) -> list[Shard]:
    """Slices as any history may have left them: some entries twice, numbers missing, some empty."""
    numbers = sorted(draw(st.sets(st.integers(0, 9), max_size=6)))
    return [Shard(number, tuple(draw(st.lists(_any_entry, max_size=size, unique_by=_name)))) for number in numbers]


_any_entry = st.sampled_from(ENTRIES)


def _name(one: Entry) -> str:
    return one.name


def carried_out(before: list[Shard], writes: SliceWrites) -> list[dict[int, tuple[Entry, ...]]]:
    """All slices after each write and each delete, and before the first."""
    now = {shard.number: shard.entries for shard in before}
    seen = [dict(now)]
    for shard in writes.shards:
        now[shard.number] = shard.entries
        seen.append(dict(now))
    for number in writes.empty:
        del now[number]
        seen.append(dict(now))
    return seen


def names_in(layout: dict[int, tuple[Entry, ...]]) -> set[str]:
    return {one.name for entries in layout.values() for one in entries}


@settings(deadline=None)
@given(before=layouts(), wanted=st.lists(_any_entry, unique_by=_name))
def test_the_writes_end_in_exactly_the_wanted_entries_each_once_and_in_slices_that_are_not_too_full(
    before: list[Shard], wanted: list[Entry]
) -> None:
    after = carried_out(before, spread(before, wanted, size=4))[-1]
    assert sorted((one for entries in after.values() for one in entries), key=_name) == sorted(wanted, key=_name)
    assert all(len(entries) <= 4 for entries in after.values())
    assert 0 in after
    assert all(entries for number, entries in after.items() if number)


@settings(deadline=None)
@given(before=layouts(), wanted=st.lists(_any_entry, unique_by=_name))
def test_nobody_who_stays_is_ever_missing_on_the_way(before: list[Shard], wanted: list[Entry]) -> None:
    seen = carried_out(before, spread(before, wanted, size=4))
    staying = names_in(seen[0]) & {one.name for one in wanted}
    assert all(staying <= names_in(moment) for moment in seen)


@settings(deadline=None)
@given(before=layouts(), wanted=st.lists(_any_entry, unique_by=_name))
def test_no_slice_is_too_full_at_any_moment(before: list[Shard], wanted: list[Entry]) -> None:
    for moment in carried_out(before, spread(before, wanted, size=4)):
        assert all(len(entries) <= 4 for entries in moment.values())


@settings(deadline=None)
@given(before=layouts(), wanted=st.lists(_any_entry, unique_by=_name))
def test_where_all_stay_it_comes_to_the_same_not_to_look_at_them(before: list[Shard], wanted: list[Entry]) -> None:
    after = carried_out(before, spread(before, wanted, size=4))[-1]
    layout = [Shard(number, entries) for number, entries in sorted(after.items())]
    more = [one for one in ENTRIES if one not in wanted]
    there = [one for shard in layout for one in shard.entries]
    for some in ([], more[:1], more):
        assert added(layout, some, size=4) == spread(layout, [*there, *some], size=4)


@settings(deadline=None)
@given(before=layouts(), wanted=st.lists(_any_entry, unique_by=_name))
def test_in_the_end_nothing_is_left_to_write(before: list[Shard], wanted: list[Entry]) -> None:
    """The last slice may be given up one after the other, each time by one snapshot."""
    layout = before
    for _ in range(12):
        writes = spread(layout, wanted, size=4)
        if writes == SliceWrites():
            break
        after = carried_out(layout, writes)[-1]
        layout = [Shard(number, entries) for number, entries in sorted(after.items())]
    else:
        raise AssertionError(f"still writing: {spread(layout, wanted, size=4)}")


def test_the_first_slice_is_there_though_nobody_is_a_member() -> None:
    assert spread([], []) == SliceWrites(shards=(Shard(0),))
    assert spread([Shard(0)], []) == SliceWrites()


def test_a_change_of_one_entry_writes_one_slice() -> None:
    many = [entry(f"gpu-{number:04d}") for number in range(1000)]
    first = spread([], many)
    assert [len(shard.entries) for shard in first.shards] == [MOST_ENTRIES] * 10
    many[250] = entry("gpu-0250", state="leaving", reason="scaled in")
    assert [shard.number for shard in spread(first.shards, many).shards] == [2]


def test_an_entry_that_comes_and_goes_at_the_edge_does_not_make_a_slice_come_and_go() -> None:
    some = [entry(f"gpu-{number}") for number in range(9)]
    full = spread([], some, size=4).shards
    assert spread(full, some[:8], size=4).empty == (2,)
    two = spread([], some[:8], size=4).shards
    assert [shard.number for shard in spread(two, some, size=4).shards] == [2]
    three = [Shard(0, tuple(some[:3])), Shard(1, tuple(some[3:6])), Shard(2, (some[6],))]
    assert spread(three, some[:7], size=4) == SliceWrites()


def test_a_slice_knows_its_number_by_its_name() -> None:
    owner = nodeset("gpu-1")
    assert number_of(node_slice(owner, 12)) == 12
    assert [shard.number for shard in shards([node_slice(owner, 2), node_slice(owner, 0)])] == [0, 2]


def test_a_slice_that_somebody_else_has_named_is_none_of_ours() -> None:
    owner = nodeset("gpu")
    for name in ("gpu", "gpu-", "gpu-01", "gpu-x", "gpu--1", "other-1", "gpu-²"):
        found = node_slice(owner, 0)
        assert number_of(replace(found, metadata=replace(found.metadata, name=name))) is None
