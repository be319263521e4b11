"""Which Pods a person means, and which words may stand in Slurm."""

import getpass

import msgspec
import pytest

from sunk.insight.drain.request import about, answer, chosen, order, signed
from sunk.kube.core import Pod
from sunk.model import names
from sunk.model.refusal import Refusal


def pod(name: str, *, on: str, **notes: str) -> Pod:
    annotations = {getattr(names, key.upper()): value for key, value in notes.items()}
    metadata = {"name": name, "namespace": "team", "uid": f"uid-{name}", "annotations": annotations}
    return msgspec.convert({"metadata": metadata, "spec": {"nodeName": on}}, Pod)


PODS = [pod(f"gpu-{number}", on=f"node-{number}") for number in range(1, 4)]


def names_of(*targets: str) -> list[str]:
    return [one.metadata.name for one in chosen(targets, PODS)]


def test_slurm_nodes_hostlists_and_nodes_are_understood() -> None:
    assert names_of("gpu-1") == ["gpu-1"]
    assert names_of("gpu-[1-3]") == ["gpu-1", "gpu-2", "gpu-3"]
    assert names_of("node-2") == ["gpu-2"]


def test_a_node_that_is_named_twice_is_asked_once() -> None:
    assert names_of("gpu-1", "node-1", "gpu-[1-2]") == ["gpu-1", "gpu-2"]


def test_one_unknown_name_refuses_all_of_it() -> None:
    with pytest.raises(Refusal, match="gpu-9 is neither a compute Pod nor a Node that runs one"):
        names_of("gpu-1", "gpu-9")


def test_a_broken_hostlist_is_refused_with_what_is_wrong() -> None:
    with pytest.raises(Refusal, match="neither a name nor a hostlist"):
        names_of("gpu-[1")


def test_a_reason_carries_the_name_of_who_gave_it() -> None:
    assert signed(" fan  is\nloud ") == f"{getpass.getuser()}: fan is loud"


@pytest.mark.parametrize("reason", ["", "  ", "k8s: cordon"])
def test_a_reason_is_needed_and_may_not_look_like_ours(reason: str) -> None:
    with pytest.raises(Refusal):
        signed(reason)


def told(status: str, message: str) -> Pod:
    conditions = [{"type": "Ready", "status": "True"}, {"type": "SlurmDrain", "status": status, "message": message}]
    return msgspec.convert({"metadata": {"name": "gpu-1"}, "status": {"conditions": conditions}}, Pod)


def test_an_undrain_names_the_drain_that_its_author_sees() -> None:
    undrain = order("undrain")
    assert about(undrain, told("True", "bob: smoke")).lifts == "bob: smoke"
    assert about(undrain, told("True", "")).lifts == ""
    assert about(undrain, told("True", "r" * 5000)).lifts == "r" * 1024


def test_where_no_drain_is_seen_an_undrain_names_none() -> None:
    undrain = order("undrain")
    for one in (told("False", ""), told("Unknown", "Slurm has no node of this name"), PODS[0]):
        assert about(undrain, one) == undrain
    assert b"lifts" not in msgspec.json.encode(undrain)
    drain = order("drain", "x")
    assert about(drain, told("True", "bob: smoke")) == drain


def test_every_order_is_a_new_one() -> None:
    assert order("drain", "x").id != order("drain", "x").id


@pytest.mark.parametrize("text", ["", "{", "[]", '{"done":true}'])
def test_an_answer_that_cannot_be_read_is_none(text: str) -> None:
    assert answer(pod("gpu-1", on="node-1", order_done=text)) is None
