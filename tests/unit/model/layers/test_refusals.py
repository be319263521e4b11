"""What cannot be composed is refused with the place, the layers and a way out."""

import pytest
from tests.unit.model.layers.layering import SHIPPED, Values, asking, asking_one_of, composed, within

from sunk.model.layers.catalog import gather
from sunk.model.layers.compose import LONGEST_CHAIN
from sunk.model.refusal import Refusal


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        (
            {"mine": {"definitions": ["h100", "H20O"]}},
            r"compute\.nodes\.mine\.definitions\[1\]: no layer H20O\. Did you mean h200",
        ),
        (
            {"layer": {"definitions": ["qqqqqqqq"]}, "mine": {"definitions": ["layer"]}},
            r"compute\.nodes\.layer\.definitions\[0\]: no layer qqqqqqqq\. Layers are the keys",
        ),
        (
            {"mine": {"definitions": ["a"]}, "a": {"definitions": ["b"]}, "b": {"definitions": ["a"]}},
            r"compute\.nodes\.mine\.definitions: mine → a → b → a is a cycle",
        ),
        ({"mine": {"definitions": ["mine"]}}, r"mine → mine is a cycle"),
        (
            {"base": {"definitions": ["mine"]}, "mine": {"definitions": ["h100"]}},
            r"compute\.nodes\.mine\.definitions: mine → base → mine is a cycle",
        ),
        (
            {"mine": {"definitions": ["h100"], "features": {"gpu": True}}},
            r"compute\.nodes\.mine\.features is a map in layer mine, but a list in layer h100 \(shipped\)",
        ),
        (
            {"mine": {"definitions": ["h100"], "resources": {"limits": "8Gi"}}},
            r"compute\.nodes\.mine\.resources\.limits is a single value in layer mine, but a map in layer h100",
        ),
        (
            {"mine": {"definitions": ["h100"], "gresGpu": ["h100:8"]}},
            r"compute\.nodes\.mine\.gresGpu is a list in layer mine, but a single value in layer h100",
        ),
        (
            {"mine": {"definitions": ["h100"], "resources": {"limits": {"sunk.coreweave.com/accelerator": [8]}}}},
            r'resources\.limits\["sunk\.coreweave\.com/accelerator"\] is a list',
        ),
        (
            {"a": {"env": [{"name": "A", "x": {}}]}, "mine": {"definitions": ["a"], "env": [{"name": "A", "x": []}]}},
            r"compute\.nodes\.mine\.env\[A\]\.x is a list in layer mine, but a map in layer a\.",
        ),
        (
            {"mine": {"definitions": ["h100"], "features": [{"name": "gpu"}]}},
            r"compute\.nodes\.mine\.features holds a map in layer mine, but a single value in layer h100",
        ),
        (
            {"mine": {"definitions": ["a"]}, "a": ["h100"]},
            r"compute\.nodes\.a: a layer must be a map of values, found list",
        ),
        ({"mine": None}, r"compute\.nodes\.mine: a layer must be a map of values, found nothing\. Write {}"),
        (
            {"mine": {"definitions": "h100"}},
            r"compute\.nodes\.mine\.definitions must be a list of layer names, found 'h100'",
        ),
        ({"mine": {"definitions": [{"h100": {}}]}}, r"definitions\[0\]: a layer name must be text"),
        ({"other": {}}, r"compute\.nodes has no definition mine"),
        ({"mine": {"definitions": [], "features": ["a", None]}}, r"compute\.nodes\.mine\.features has an empty item"),
        ({"mine": {"labels": {1: "x"}}}, r"compute\.nodes\.mine\.labels has the key 1, which is not text"),
        (
            {"mine": {**asking(within("a")), "definitions": ["a"]}, "a": asking({"operator": "In"})},
            r"matchExpressions holds an expression without a key in layer a",
        ),
        ({"mine": asking_one_of(["zone"])}, r"holds an expression without a key in layer mine"),  # type: ignore[list-item]
    ],
)
def test_what_cannot_be_composed_is_refused_with_its_place(nodes: Values, wanted: str) -> None:
    with pytest.raises(Refusal, match=wanted):
        composed("mine", nodes, shipped=SHIPPED)


def test_a_date_is_refused_because_json_has_none() -> None:
    with pytest.raises(Refusal, match=r"compute\.nodes\.mine\.day is date 2026-01-02 in layer mine.*quotes"):
        composed("mine", "mine: {day: 2026-01-02}")


def test_a_value_that_holds_itself_is_refused() -> None:
    with pytest.raises(Refusal, match="more than 64 levels deep"):
        composed("mine", "mine: {list: &itself [*itself]}")


def test_layers_that_double_with_every_storey_are_refused_soon() -> None:
    nodes: Values = {f"l{n}": {"definitions": [f"l{n + 1}", f"l{n + 1}"]} for n in range(50)}
    with pytest.raises(Refusal, match=r"compute\.nodes\.l0: it has more than 1000 layers"):
        composed("l0", {**nodes, "l50": {}})


def test_a_chain_of_layers_that_is_too_long_is_refused() -> None:
    nodes: Values = {f"l{n}": {"definitions": [f"l{n + 1}"]} for n in range(1000)}
    with pytest.raises(Refusal, match=rf"compute\.nodes\.l0\.definitions: more than {LONGEST_CHAIN} layers build"):
        composed("l0", {**nodes, "l1000": {}})


def test_a_shipped_layer_may_stand_in_one_file_only() -> None:
    with pytest.raises(Refusal, match=r"layer h100 is defined in a\.yaml and in b\.yaml"):
        gather({"a.yaml": {"h100": {}}, "b.yaml": {"h100": {}}})
    with pytest.raises(Refusal, match=r"a\.yaml: a file of layers must be a map of names to values, found list"):
        gather({"a.yaml": []})
