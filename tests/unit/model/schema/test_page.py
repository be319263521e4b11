"""The page of all values: every path once, with what may stand there."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from sunk.model.schema.page import section
from sunk.model.schema.vocabulary import IntOrString, rule


class Image(Struct, frozen=True):
    """Which image."""

    name: str = ""
    tag: str = "1"


class Item(Struct, frozen=True):
    """A thing."""

    name: str
    """What it is called; a|b."""
    size: Annotated[int, Meta(ge=1)] = 1


class Part(Struct, frozen=True):
    """A part of it."""

    image: Image = Image(name="special")
    items: Annotated[tuple[Item, ...], Meta(max_length=3)] = ()
    by_name: Annotated[dict[str, Item], Meta(max_length=3)] = field(default_factory=dict)
    how: Literal["", "fast", "slow"] = "fast"
    budget: IntOrString = "10%"
    text: str = "two\nlines"


class Root(Struct, frozen=True):
    """Everything."""

    image: Image = Image()
    count: Annotated[int, Meta(ge=0, le=9), rule("self < 5", "fewer than five")] = 3
    """How many."""
    ready: bool = False
    part: Part = Part()
    few: Annotated[int, rule("self < 5", "fewer than five")] = 3


def rows() -> dict[str, list[str]]:
    lines = [line for line in section(Root, title="Values").splitlines() if line.startswith("| `")]
    split = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {cells[0].strip("`"): cells[1:] for cells in split}


def test_values_without_members_come_first_and_the_others_under_titles() -> None:
    page = section(Root, title="Values of it")
    assert page.startswith("## Values of it\n\n| value | type | default | |\n")
    assert [line for line in page.splitlines() if line.startswith("#")] == ["## Values of it", "### image", "### part"]
    assert "\n### part\n\nA part of it.\n" in page


def test_a_row_says_what_may_be_there_and_the_default() -> None:
    found = rows()
    assert found["count"] == ["number, 0 to 9", "`3`", "How many."]
    assert found["few"] == ["number", "`3`", "fewer than five."]
    assert found["ready"] == ["`true`, `false`", "`false`", ""]
    assert found["part.how"] == ["empty, `fast`, `slow`", "`fast`", ""]
    assert found["part.budget"] == ["number or string", "`10%`", ""]


def test_what_came_before_is_not_told_twice_but_its_default_is() -> None:
    assert rows()["part.image"] == ["map", '`{"name":"special"}`', "Same fields as `image`. Which image."]
    assert "part.image.name" not in rows()


def test_items_and_names_of_ones_own_are_part_of_a_path() -> None:
    found = rows()
    assert found["part.items"][0] == "list of maps"
    assert found["part.items[].name"] == ["string", "required", "What it is called; a&#124;b."]
    assert found["part.by_name"] == ["map of maps", "", "Same fields as `part.items[]`."]


def test_a_default_that_is_long_is_looked_up_elsewhere() -> None:
    assert rows()["part.text"][1] == "in values.yaml"
