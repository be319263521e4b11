"""What others wrote is read or refused, and nothing else, however deep it is."""

from contextlib import suppress

import pytest
from hypothesis import given, strategies as st
from msgspec import Raw

from sunk.model.contract.report import Report
from sunk.model.contract.requests import Answer, Order
from sunk.model.foreign import DEEPEST, UnreadableJson, decode, tree
from sunk.operator.nodeset.act.revisions import revision_of
from sunk.operator.nodeset.observe.template import InvalidTemplate, read

DEPTHS = [1000, 10_000, 100_000]


def nested(depth: int, *, inner: str = "1") -> str:
    return '{"a":' * depth + inner + "}" * depth


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("kind", [Order, Answer, Report])
def test_deep_texts_are_refused_as_one_kind_of_error_or_skipped(
    depth: int, kind: type[Order | Answer | Report]
) -> None:
    for text in (nested(depth), f'{{"id":{nested(depth)}}}', "[" * depth, '{"a":' * depth, f'{{"x":{nested(depth)}'):
        with pytest.raises(UnreadableJson):
            decode(text, kind if kind is not Report else Order)
    with suppress(UnreadableJson):  # a Python that reads so deep skips what we do not know
        assert decode(f'{{"unknown":{nested(depth)}}}', Report) == Report()


@given(st.text(), st.sampled_from([Order, Answer, Report]))
def test_any_text_is_read_or_refused(text: str, kind: type[Order]) -> None:
    with suppress(UnreadableJson):
        assert isinstance(decode(text, kind), kind)


def test_a_tree_may_be_as_deep_as_we_say_on_every_python() -> None:
    assert tree(nested(DEEPEST - 1))
    for depth in (DEEPEST, *DEPTHS):
        with pytest.raises(UnreadableJson, match="nested too deep"):
            tree(nested(depth))


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_template_that_is_too_deep_is_said_and_has_a_revision(depth: int) -> None:
    template = Raw(f'{{"spec":{{"containers":[{{"name":"slurmd"}}],"x":{nested(depth)}}}}}'.encode())
    with pytest.raises(InvalidTemplate, match="nested too deep"):
        read(template)
    assert revision_of(template)
