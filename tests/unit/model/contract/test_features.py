"""Features of a Slurm node come from its NodeSet and from labels of its Node."""

from hypothesis import given, strategies as st

from sunk.model.contract.features import features
from sunk.model.nodeset import DynamicFeature, Features

SPEC = Features(
    static_features=("h100", "cu12"),
    dynamic_features={"zone": DynamicFeature(), "driver": DynamicFeature(prefix="driver-")},
)


def test_static_features_come_first_and_dynamic_ones_in_the_order_of_their_labels() -> None:
    assert features(SPEC, {"zone": "a1", "driver": "550.54"}) == ("h100", "cu12", "driver-550.54", "a1")


def test_a_label_that_is_missing_or_empty_gives_no_feature() -> None:
    assert features(SPEC, {"driver": ""}) == ("h100", "cu12")


def test_a_feature_is_told_once() -> None:
    assert features(SPEC, {"zone": "h100"}) == ("h100", "cu12")


def test_characters_that_slurm_would_read_as_something_else_are_replaced() -> None:
    labels = {"zone": "a,b&c|d e*[1](2)!é", "driver": "5:5/0=_-."}
    assert features(SPEC, labels)[2:] == ("driver-5:5/0=_-.", "a_b_c_d_e__1__2___")


@given(
    static=st.lists(st.text(max_size=5), max_size=5),
    dynamic=st.dictionaries(st.sampled_from("abc"), st.builds(DynamicFeature, prefix=st.text(max_size=3))),
    labels=st.dictionaries(st.sampled_from("abcd"), st.text(max_size=5)),
)
def test_no_text_can_bring_a_second_feature_in(
    static: list[str], dynamic: dict[str, DynamicFeature], labels: dict[str, str]
) -> None:
    found = features(Features(static_features=tuple(static), dynamic_features=dynamic), labels)
    assert not any(set(one) & set(",&|!*[]() \t\n") for one in found)
    assert "" not in found
    assert len(set(found)) == len(found)
    assert len(found) <= len(static) + len(dynamic)
    backwards = dict(reversed(dynamic.items()))
    assert features(Features(static_features=tuple(static), dynamic_features=backwards), labels) == found
