"""How a layer updates what the layers below it have made."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from tests.unit.model.layers.layering import Values, asking, asking_one_of, composed, laid, terms, within

from sunk.model.layers.compose import compose
from sunk.model.layers.tree import Layer, Part, plain, plant
from sunk.model.layers.update import update
from sunk.model.refusal import Refusal

# Values


@pytest.mark.parametrize("value", ["text", 7, 0, False, 1.5, ""])
def test_a_scalar_replaces_a_scalar_of_any_type(value: object) -> None:
    assert laid({"key": "before"}, {"key": value}) == {"key": value}


def test_null_takes_a_key_away_at_any_depth_and_is_never_left_over() -> None:
    below = {"gone": 1, "map": {"gone": [1], "stays": 2}}
    above = {"gone": None, "map": {"gone": None, "never": None}, "new": {"never": None}, "list": [{"never": None}]}
    assert laid(below, above) == {"map": {"stays": 2}, "new": {}, "list": [{}]}


def test_a_key_taken_away_can_be_set_again_by_a_layer_after() -> None:
    assert laid({"features": ["a"]}, {"features": None}, {"features": ["b"]}) == {"features": ["b"]}


def test_null_in_a_layer_takes_away_what_layers_before_it_have_set_even_if_it_is_composed_itself() -> None:
    nodes = {
        "first": {"sharing": "open"},
        "below": {"gresGpu": "a:1"},
        "second": {"definitions": ["below"], "sharing": None},
        "mine": {"definitions": ["first", "second"]},
    }
    assert composed("mine", nodes).value == {"gresGpu": "a:1"}


def test_a_list_that_stands_in_one_layer_only_is_left_as_it_was_written() -> None:
    command = ["sleep", "1", "1"]
    assert laid({"command": command}, {"other": 1})["command"] == command
    assert laid({"command": command}, {"command": command})["command"] == command


def test_an_empty_list_adds_nothing() -> None:
    assert laid({"features": ["gpu"]}, {"features": []}) == {"features": ["gpu"]}


def test_items_are_matched_by_name_and_gone_into_and_others_appended() -> None:
    below = {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}
    above = {"env": [{"name": "C", "value": "3"}, {"name": "A", "value": None, "valueFrom": {"x": "y"}}]}
    assert laid(below, above)["env"] == [
        {"name": "A", "valueFrom": {"x": "y"}},
        {"name": "B", "value": "2"},
        {"name": "C", "value": "3"},
    ]


def test_lists_within_items_that_are_matched_are_united_too() -> None:
    below = {"containers": [{"name": "a", "args": ["-v"]}]}
    above = {"containers": [{"name": "a", "args": ["-q"]}]}
    assert laid(below, above) == {"containers": [{"name": "a", "args": ["-v", "-q"]}]}


def test_two_mounts_of_one_volume_stay_two() -> None:
    mounts = [{"name": "data", "mountPath": "/a"}, {"name": "data", "mountPath": "/b"}]
    other = {"name": "other", "mountPath": "/c"}
    assert laid({"mounts": mounts}, {"mounts": [other]})["mounts"] == [*mounts, other]
    assert laid({"mounts": [other]}, {"mounts": mounts}, {"mounts": mounts})["mounts"] == [other, *mounts]


def test_items_without_a_name_stand_once_if_they_are_equal() -> None:
    gpu, lock = {"key": "gpu", "operator": "Exists"}, {"operator": "Exists", "key": "lock"}
    made = laid({"tolerations": [gpu]}, {"tolerations": [lock, dict(reversed(gpu.items()))]})
    assert made["tolerations"] == [gpu, lock]


def test_numbers_and_truths_are_not_taken_for_each_other() -> None:
    assert repr(laid({"list": [1]}, {"list": [True, 1.0, "1"]})["list"]) == "[1, True, 1.0, '1']"


# Node affinity


def test_expressions_are_replaced_whole_in_their_place() -> None:
    below = asking(within("zone", "a", "b"), within("gpu", "h100"))
    above = asking(within("new", "x"), {"key": "zone", "operator": "Exists"})
    assert terms(laid(below, above)) == [
        [{"key": "zone", "operator": "Exists"}, within("gpu", "h100"), within("new", "x")]
    ]


def test_a_range_is_two_expressions_about_one_key_and_stays_so() -> None:
    span = [{"key": "gpus", "operator": "Gt", "values": ["3"]}, {"key": "gpus", "operator": "Lt", "values": ["9"]}]
    assert terms(laid(asking(*span), asking(within("zone", "a")))) == [[*span, within("zone", "a")]]
    assert terms(laid(asking(within("gpus", "8")), asking(*span), asking(*span))) == [span]


def test_an_expression_without_an_operator_takes_its_key_away() -> None:
    below = asking(within("gpu.nvidia.com/model", "H100"), within("zone", "a"))
    above = asking({"key": "gpu.nvidia.com/model", "operator": None}, {"key": "never", "operator": None})
    assert terms(laid(below, above)) == [[within("zone", "a")]]
    assert terms(laid(above)) == [[]]


def test_null_within_an_expression_is_taken_away_as_elsewhere() -> None:
    exists = {"key": "zone", "operator": "Exists"}
    assert terms(laid(asking({**exists, "values": None}))) == [[exists]]


def test_one_term_holds_in_each_of_several() -> None:
    either = asking_one_of([within("zone", "a")], [within("zone", "b"), within("rack", "1")])
    gpu = asking(within("gpu", "h100"))
    wanted = [
        [within("zone", "a"), within("gpu", "h100")],
        [within("zone", "b"), within("rack", "1"), within("gpu", "h100")],
    ]
    assert terms(laid(either, gpu)) == wanted
    assert [sorted(term, key=repr) for term in terms(laid(gpu, either))] == [sorted(term, key=repr) for term in wanted]


def test_terms_that_have_become_equal_stand_once() -> None:
    either = asking_one_of([within("zone", "a")], [within("zone", "b")])
    assert terms(laid(either, asking(within("zone", "c")))) == [[within("zone", "c")]]


def test_several_terms_over_several_are_refused_unless_they_say_nothing_new() -> None:
    either = asking_one_of([within("zone", "a")], [within("rack", "1")])
    gpu = asking(within("gpu", "h100"))
    assert laid(gpu, either, either) == laid(gpu, either)
    with pytest.raises(Refusal, match=r"nodeSelectorTerms has 2 terms in layer layer1, over 2 from layer layer0"):
        laid(either, asking_one_of([within("a", "1")], [within("b", "1")]))


def test_the_way_out_of_that_refusal_works() -> None:
    either, other = asking_one_of([within("a", "1")], [within("b", "1")]), asking_one_of([within("c", "1")], [])
    assert laid(either, {"affinity": None}, other) == laid(other)


def test_preferred_affinity_is_a_list_like_others() -> None:
    def wish(zone: str) -> Values:
        preferred = [{"weight": 1, "preference": {"matchExpressions": [within("zone", zone)]}}]
        return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}

    made = laid(wish("a"), wish("b"), wish("a"))["affinity"]["nodeAffinity"]
    assert len(made["preferredDuringSchedulingIgnoredDuringExecution"]) == 2


# Laws

law = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.sampled_from(["x", "y", 0, 1, True, False, 1.5, ""])
EXPRESSIONS = st.builds(
    lambda key, operator, values: {"key": key, "operator": operator, "values": values},
    key=NAMES,
    operator=st.sampled_from(["In", "NotIn"]),
    values=st.lists(st.sampled_from(["1", "2", "3"]), max_size=2),
)


def layers(*, null: bool, deeper: int = 1) -> st.SearchStrategy[Values]:
    """Layers whose keys tell what they hold, so that any two go together."""
    inner = layers(null=null, deeper=deeper - 1) if deeper else st.fixed_dictionaries({}, optional={"scalar": SCALARS})
    named = st.builds(lambda name, rest: {**rest, "name": name}, name=NAMES, rest=inner)
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "scalar": SCALARS,
        "map": inner,
        "texts": st.lists(NAMES, max_size=4),
        "named": st.lists(named, max_size=3),
        "others": st.lists(st.dictionaries(NAMES, SCALARS, max_size=2), max_size=3),
        "affinity": st.lists(EXPRESSIONS, max_size=3).map(lambda found: asking(*found)["affinity"]),
    }
    if null:
        kinds = {key: st.none() | kind for key, kind in kinds.items()}
    return st.fixed_dictionaries({}, optional=kinds)


def over(below: Values, above: Values) -> Any:
    planted = [plant(value, layer=Layer(name), at=name) for name, value in (("below", below), ("above", above))]
    return plain(_updated(_updated(plant({}, layer=Layer("nothing"), at=""), planted[0]), planted[1]))


def _updated(below: Part, above: Part) -> Part:
    made = update(below, above, at="made")
    assert made is not None
    return made


@law
@given(below=layers(null=True), layer=layers(null=True))
def test_a_layer_applied_twice_is_a_layer_applied_once(below: Values, layer: Values) -> None:
    assert repr(laid(below, layer, layer)) == repr(laid(below, layer))
    assert repr(laid(layer, layer)) == repr(laid(layer))


@law
@given(low=layers(null=False), middle=layers(null=False), top=layers(null=False))
def test_without_nulls_it_does_not_matter_which_layers_are_composed_first(
    low: Values, middle: Values, top: Values
) -> None:
    assert repr(over(over(low, middle), top)) == repr(over(low, over(middle, top)))


@law
@given(found=st.lists(st.lists(NAMES, min_size=1, max_size=5), min_size=2, max_size=4))
def test_texts_are_united_in_the_order_in_which_they_first_came(found: list[list[str]]) -> None:
    united = list(dict.fromkeys(text for texts in found for text in texts))
    alike = all(texts == found[0] for texts in found)
    assert laid(*({"texts": texts} for texts in found)) == {"texts": found[0] if alike else united}


@law
@given(layer=layers(null=True))
def test_nothing_over_a_layer_and_a_layer_over_nothing_are_the_layer(layer: Values) -> None:
    assert laid({}, layer) == laid(layer) == laid(layer, {})


@law
@given(below=layers(null=True), layer=layers(null=True))
def test_no_null_is_left_and_what_is_null_in_the_last_layer_is_gone(below: Values, layer: Values) -> None:
    made = laid(below, layer)
    assert not any(value is None for value in _leaves(made))
    assert not made.keys() & {key for key, value in layer.items() if value is None}


@law
@given(found=st.lists(layers(null=True), max_size=4))
def test_every_leaf_and_nothing_else_has_an_origin_that_says_the_same(found: list[Values]) -> None:
    nodes = {f"layer{number}": layer for number, layer in enumerate(found)}
    made = compose("made", nodes={**nodes, "made": {"definitions": list(nodes)}}, shipped={})
    assert len(made.origins) == len(list(_leaves(made.value)))
    for path, layer in made.origins.items():
        leaf: Any = made.value
        for step in path:
            leaf = leaf[step]
        if not isinstance(leaf, dict | list):
            assert any(leaf == said and type(leaf) is type(said) for said in _parts(nodes[layer.name]))


def _leaves(value: Any) -> Any:
    parts = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    if not parts:
        yield value
    for part in parts:
        yield from _leaves(part)


def _parts(value: Any) -> Any:
    """Whatever stands in it, at any depth."""
    yield value
    for part in list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []:
        yield from _parts(part)
