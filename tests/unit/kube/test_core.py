"""What many Pods say alike is held once, and never mixed up with what only looks alike."""

from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec import json, to_builtins

from sunk.kube.core import MOST, Pod, Shared

TOLERATION = {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 300}


def pod(*containers: dict[str, Any], tolerations: tuple[dict[str, Any], ...] = ()) -> Pod:
    body = {"metadata": {"name": "p"}, "spec": {"containers": containers, "tolerations": tolerations}}
    return json.decode(json.encode(body), type=Pod)


def container(**requests: Any) -> dict[str, Any]:
    return {"name": "main", "image": "i", "resources": {"requests": requests}}


def test_pods_of_one_template_hold_one_copy_of_it() -> None:
    one, other = (pod(container(cpu="2"), tolerations=(TOLERATION,)) for _ in range(2))
    assert one.spec.containers is other.spec.containers
    assert one.spec.tolerations is other.spec.tolerations


UNLIKE = [
    container(),
    container(cpu="2"),
    container(cpu="1"),
    container(memory="2"),
    {"name": "main", "image": "i"},
    {"name": "main", "image": "j"},
    {"name": "side", "image": "i"},
    {"name": "main", "image": "i", "restartPolicy": "Always"},
]


@pytest.mark.parametrize("first", UNLIKE)
@pytest.mark.parametrize("second", UNLIKE)
def test_containers_that_differ_stay_different(first: dict[str, Any], second: dict[str, Any]) -> None:
    one, other = pod(first).spec.containers, pod(second).spec.containers
    assert (one is other) == (first is second)
    assert (one == other) == (first is second)


text = st.sampled_from(["", "a", "b"])
containers = st.lists(
    st.fixed_dictionaries(
        {"name": text},
        optional={
            "image": text,
            "restartPolicy": text,
            "resources": st.fixed_dictionaries(
                {}, optional={"requests": st.dictionaries(text, st.sampled_from(["1", "2", 1, 2]))}
            ),
        },
    ),
    max_size=3,
)


@given(some=containers)
def test_whatever_was_seen_before_a_pod_says_what_it_said(some: list[dict[str, Any]]) -> None:
    plain: Any = {"image": "", "restartPolicy": "", "resources": {"requests": None}}
    wanted = [plain | one | {"resources": {"requests": None} | one.get("resources", {})} for one in some]
    assert list(to_builtins(pod(*some).spec.containers)) == wanted


def test_a_table_that_grew_too_large_starts_over() -> None:
    shared = Shared[list[int]]()
    first = shared.one([0], key=0)
    assert shared.one([0], key=0) is first
    for number in range(1, MOST + 1):
        shared.one([number], key=number)
    assert shared.one([0], key=0) is not first
