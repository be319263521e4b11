"""Numbers with their nouns."""

from sunk.model.wording import counted, verb


def test_one_is_singular_and_any_other_number_plural() -> None:
    assert [counted(number, "node") for number in (0, 1, 2)] == ["0 nodes", "1 node", "2 nodes"]
    assert [verb(number) for number in (0, 1, 2)] == ["are", "is", "are"]
