"""Which template a Pod was made from, and which ones are kept."""

import msgspec
from hypothesis import given, settings, strategies as st
from tests.unit.operator.nodeset.factories import TEMPLATE, UID, nodeset

from sunk.objects.nodesets import ControllerRevision, owner_uid
from sunk.operator.nodeset.act.revisions import forgettable, newest, object_name, revision_body, revision_of

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def raw(tree: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(tree))


def shuffled(tree: object) -> object:
    """The same, with the words of every mapping the other way round."""
    if isinstance(tree, dict):
        return {word: shuffled(tree[word]) for word in reversed(tree)}
    return [shuffled(one) for one in tree] if isinstance(tree, list) else tree


def kept(number: int) -> ControllerRevision:
    return msgspec.convert({"metadata": {"name": f"gpu-{number}"}, "revision": number}, ControllerRevision)


@settings(deadline=None)
@given(tree=st.dictionaries(st.text(max_size=5), json_values, max_size=5))
def test_a_template_has_one_name_however_it_is_written_down(tree: dict[str, object]) -> None:
    assert revision_of(raw(shuffled(tree))) == revision_of(raw(tree))
    spaced = msgspec.Raw(msgspec.json.format(msgspec.json.encode(tree), indent=2))
    assert revision_of(spaced) == revision_of(raw(tree))


def test_another_template_has_another_name_that_fits_a_label() -> None:
    one, other = revision_of(raw(TEMPLATE)), revision_of(raw(TEMPLATE | {"metadata": {}}))
    assert one != other
    assert len(one) <= 63
    assert one.isalnum()


def test_a_revision_keeps_the_template_whole_and_belongs_to_its_set() -> None:
    owner = nodeset()
    body = revision_body(owner, "abc", number=3)
    made = msgspec.json.decode(msgspec.json.encode(body), type=ControllerRevision)
    assert made.metadata.name == object_name(owner, "abc") == "gpu-abc"
    assert made.revision == 3
    assert owner_uid(made) == UID
    assert body["data"] == {"spec": {"template": TEMPLATE}}


def test_the_newest_number_is_the_highest() -> None:
    assert newest([kept(3), kept(12), kept(5)]) == 12
    assert newest([]) == 0


def test_the_oldest_beyond_the_limit_are_forgotten() -> None:
    history = [kept(number) for number in (4, 1, 3, 2)]
    assert [one.revision for one in forgettable(history, used=(), limit=2)] == [1, 2]
    assert forgettable(history, used=(), limit=4) == ()


def test_one_that_is_in_use_is_kept_and_takes_nobodys_place() -> None:
    history = [kept(number) for number in range(1, 6)]
    assert [one.revision for one in forgettable(history, used={"gpu-1", "gpu-5"}, limit=2)] == [2]
