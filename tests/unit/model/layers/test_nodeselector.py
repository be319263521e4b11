"""`nodeSelector` of a definition is required node affinity, in fewer words."""

from typing import Any

import pytest

from sunk.model.layers.compose import compose
from sunk.model.refusal import Refusal


def required(*terms: dict[str, list[str]]) -> dict[str, Any]:
    """Node affinity that asks for these values of labels, in any of these terms."""
    made = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": values} for key, values in term.items()]}
        for term in terms
    ]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": made}}}


def affinity(**nodes: dict[str, Any]) -> Any:
    """What becomes of the definition `mine`."""
    made = compose("mine", nodes=nodes, shipped={}).value
    assert "nodeSelector" not in made
    return made.get("affinity")


def test_labels_alone_choose_nodes() -> None:
    assert affinity(mine={"nodeSelector": {"pool": "slurm", "zone": "a"}}) == required(
        {"pool": ["slurm"], "zone": ["a"]}
    )


def test_it_is_joined_with_affinity_of_the_same_layer_in_every_term() -> None:
    both = {"affinity": required({"zone": ["a"]}, {"zone": ["b"]}), "nodeSelector": {"pool": "slurm"}}
    assert affinity(mine=both) == required({"zone": ["a"], "pool": ["slurm"]}, {"zone": ["b"], "pool": ["slurm"]})


def test_a_layer_replaces_what_those_below_ask_of_the_same_label() -> None:
    below = {"affinity": required({"zone": ["a", "b"], "gpu": ["h100"]})}
    above = {"definitions": ["below"], "nodeSelector": {"zone": "c"}}
    assert affinity(below=below, mine=above) == required({"zone": ["c"], "gpu": ["h100"]})


def test_null_drops_a_label() -> None:
    below = {"nodeSelector": {"zone": "a", "gpu": "h100"}}
    above = {"definitions": ["below"], "nodeSelector": {"zone": None}}
    assert affinity(below=below, mine=above) == required({"gpu": ["h100"]})


@pytest.mark.parametrize("nothing", [None, {}])
def test_nothing_asks_for_nothing(nothing: dict[str, str] | None) -> None:
    assert affinity(mine={"nodeSelector": nothing}) is None


@pytest.mark.parametrize(("bad", "said"), [("pool", "is not a map"), ({"count": 8}, "put it in quotes")])
def test_what_is_no_label_is_refused_by_its_path(bad: Any, said: str) -> None:
    with pytest.raises(Refusal, match=rf"compute\.nodes\.mine\.nodeSelector.*{said}"):
        affinity(mine={"nodeSelector": bad})
