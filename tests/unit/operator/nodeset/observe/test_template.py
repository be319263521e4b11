"""A Pod template is looked into as the API server would read it, and what is wrong is said with its place."""

from typing import Any

import msgspec
import pytest

from sunk.kube.core import Toleration
from sunk.model.kubernetes.quantity import ONE
from sunk.model.kubernetes.selection import Expression, NodeSelector, Term
from sunk.operator.nodeset.observe.template import InvalidTemplate, Template, read, requests


def template(*, slurmd: dict[str, Any] | None = None, **spec: Any) -> Template:
    return read(raw({"spec": {"containers": [{"name": "slurmd", "image": "slurm"} | (slurmd or {})]} | spec}))


def raw(tree: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(tree))


def required(*terms: Any) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def complaint(tree: Any) -> str:
    with pytest.raises(InvalidTemplate) as refused:
        read(raw(tree))
    return str(refused.value)


def test_what_decides_about_nodes_is_read() -> None:
    asked = {"key": "zone", "operator": "In", "values": ["a"]}
    found = read(
        raw(
            {
                "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
                "spec": {
                    "containers": [{"name": "slurmd", "image": "slurm", "env": [{"name": "X"}]}],
                    "affinity": required({"matchExpressions": [asked]}) | {"podAffinity": {"any": "thing"}},
                    "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
                    "priorityClassName": "high",
                    "aFieldOfTheFuture": {"x": [1, None]},
                },
            }
        )
    )
    assert found.metadata.labels == {"a": "b"}
    assert found.metadata.annotations == {"c": "d"}
    assert found.selector == NodeSelector((Term((Expression("zone", "In", ("a",)),)),))
    assert found.spec.tolerations == (Toleration(key="gpu", operator="Exists", effect="NoSchedule"),)
    assert found.spec.priority_class_name == "high"


def test_null_is_the_same_as_absent() -> None:
    found = template(slurmd={"resources": None}, affinity={"nodeAffinity": None}, tolerations=None, overhead=None)
    assert found == template()
    assert found.selector is None


def test_a_template_without_slurmd_is_refused_and_says_what_there_is() -> None:
    said = complaint({"spec": {"containers": [{"name": "main"}, {"name": "munge"}]}})
    assert said == (
        "the Pod template is not valid: spec.containers needs a container named 'slurmd', which runs jobs; "
        "found only 'main', 'munge'."
    )


@pytest.mark.parametrize("tree", [{}, {"spec": None}, {"spec": {"containers": []}}])
def test_an_empty_template_is_refused(tree: Any) -> None:
    assert "found none" in complaint(tree)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"containers": [{"name": 5}]}, "spec.containers[0].name: expected `str`, got `int`"),
        ({"containers": {"slurmd": {}}}, "spec.containers: expected `array`, got `object`"),
        (
            {"containers": [{"name": "slurmd", "resources": {"requests": {"cpu": "lots"}}}]},
            "spec.containers[0].resources.requests: cpu: 'lots' is not a quantity",
        ),
        (
            {"containers": [{"name": "slurmd", "resources": {"limits": {"memory": "-1Gi"}}}]},
            "spec.containers[0].resources.limits: memory is '-1Gi'",
        ),
        (
            {"containers": [{"name": "slurmd"}], "resources": {"requests": {"nvidia.com/gpu": 1}}},
            "spec.resources.requests: resources of a whole Pod are limited to cpu, memory and huge pages",
        ),
        (
            {
                "containers": [{"name": "slurmd"}],
                "affinity": required({"matchExpressions": [{"key": "a", "operator": "In"}]}),
            },
            "nodeSelectorTerms[0].matchExpressions[0]: In needs at least one value",
        ),
        ({"containers": [{"name": "slurmd"}], "affinity": required()}, "nodeSelectorTerms is empty"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(spec: dict[str, Any], said: str) -> None:
    assert said in complaint({"spec": spec})


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'"x"'])
def test_what_is_no_object_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidTemplate, match="the Pod template is not valid"):
        read(text)


def test_limits_stand_in_for_requests_that_are_missing() -> None:
    found = template(slurmd={"resources": {"limits": {"cpu": 8, "memory": "1Gi"}, "requests": {"cpu": 0.5}}})
    assert requests(found) == {"cpu": ONE // 2, "memory": 2**30 * ONE}


def test_sidecars_init_containers_and_overhead_count() -> None:
    found = template(
        slurmd={"resources": {"requests": {"cpu": 4}}},
        initContainers=[
            {"name": "munge", "restartPolicy": "Always", "resources": {"requests": {"cpu": 1}}},
            {"name": "setup", "resources": {"limits": {"cpu": 6}}},
        ],
        overhead={"cpu": "250m"},
    )
    assert requests(found) == {"cpu": 7 * ONE + ONE // 4}


def test_limits_of_the_whole_pod_count_where_no_container_asks() -> None:
    found = template(slurmd={"resources": {"requests": {"cpu": 1}}}, resources={"limits": {"cpu": 4, "memory": "2Gi"}})
    assert requests(found) == {"cpu": ONE, "memory": 2**31 * ONE}


def test_requests_of_the_whole_pod_go_before_those_of_containers() -> None:
    found = template(slurmd={"resources": {"requests": {"cpu": 1}}}, resources={"requests": {"cpu": 3}})
    assert requests(found) == {"cpu": 3 * ONE}
