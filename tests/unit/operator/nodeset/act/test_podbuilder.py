"""The Pod of a member."""

from typing import Any

import msgspec
import pytest
from tests.unit.operator.nodeset.factories import UID, nodeset

from sunk.kube.core import Pod, Taint
from sunk.model import names
from sunk.model.kubernetes.taints import endured
from sunk.objects.computepods import node_of, revision
from sunk.objects.nodesets import owner_uid
from sunk.operator.nodeset.act.podbuilder import SAFE_TO_EVICT, PodBuilder
from sunk.operator.nodeset.act.revisions import plain

RICH: dict[str, Any] = {
    "metadata": {"labels": {"team": "a", names.REVISION: "mine"}, "annotations": {"note": "x", SAFE_TO_EVICT: "true"}},
    "spec": {
        "nodeName": "somewhere",
        "hostname": "somebody",
        "nodeSelector": {"disk": "ssd"},
        "priorityClassName": "sunk-compute",
        "tolerations": [{"key": "fan", "operator": "Exists"}],
        "containers": [{"name": "slurmd", "image": "slurm", "someNewField": [1, {"a": None}]}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}],
            },
            "podAntiAffinity": {"x": "y"},
        },
    },
}


def made(template: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    owner = nodeset(template=template or RICH, **spec)
    return PodBuilder(owner, revision="abc").pod("gpu-012-002", node="node-2", features=("a", "b"))


def test_a_pod_is_called_as_its_member_inside_and_out() -> None:
    pod = made()
    assert pod["metadata"]["name"] == pod["spec"]["hostname"] == "gpu-012-002"


def test_a_pod_is_pinned_to_its_node_and_to_nothing_else() -> None:
    pod = made()
    assert pod["spec"]["affinity"]["nodeAffinity"] == {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-2"]}]},
            ]
        }
    }
    assert pod["spec"]["affinity"]["podAntiAffinity"] == {"x": "y"}
    assert "nodeName" not in pod["spec"]
    assert pod["spec"]["nodeSelector"] == {"disk": "ssd"}


def test_fields_that_we_know_nothing_of_pass_through() -> None:
    assert made()["spec"]["containers"] == RICH["spec"]["containers"]
    assert made()["spec"]["priorityClassName"] == "sunk-compute"


@pytest.mark.parametrize(
    ("key", "effect"),
    [
        (names.LOCK, "NoExecute"),
        ("fan", "NoSchedule"),
        *(("node.kubernetes.io/" + trouble, "NoExecute") for trouble in ("not-ready", "unreachable")),
        *(
            ("node.kubernetes.io/" + trouble, "NoSchedule")
            for trouble in ("unschedulable", "disk-pressure", "memory-pressure", "pid-pressure", "network-unavailable")
        ),
    ],
)
def test_a_pod_tolerates_for_good_whatever_a_node_may_come_to(key: str, effect: str) -> None:
    pod = msgspec.convert(made(), Pod)
    assert endured(Taint(key=key, effect=effect, value="true"), pod.spec.tolerations)


def test_a_pod_tolerates_no_more_than_that() -> None:
    pod = msgspec.convert(made(), Pod)
    assert not endured(Taint(key="rack", effect="NoSchedule"), pod.spec.tolerations)


def test_what_decides_is_ours_whatever_the_template_says() -> None:
    pod = msgspec.convert(made(cluster="research"), Pod)
    assert revision(pod) == "abc"
    assert owner_uid(pod) == UID
    assert node_of(pod) == "node-2"
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    assert (labels[names.NODESET], labels[names.CLUSTER], labels[names.COMPONENT]) == ("gpu", "research", "compute")
    assert labels["team"] == "a"
    assert annotations[names.FEATURES] == "a,b"
    assert annotations[SAFE_TO_EVICT] == "false"
    assert annotations["note"] == "x"


@pytest.mark.parametrize("null", [{"metadata": None}, {"metadata": {"labels": None, "annotations": None}}])
def test_null_is_the_same_as_absent(null: dict[str, Any]) -> None:
    template = {"spec": {"affinity": None, "tolerations": None, "containers": []}} | null
    pod = made(template)
    assert pod["metadata"]["labels"][names.MANAGED_BY] == "sunk"


def test_one_pod_shares_nothing_with_the_next_that_could_be_changed() -> None:
    builder = PodBuilder(nodeset(template=RICH), revision="abc")
    one, other = builder.pod("gpu-0", node="a"), builder.pod("gpu-1", node="b")
    one["metadata"]["labels"]["x"] = one["spec"]["tolerations"] = "changed"
    assert "x" not in other["metadata"]["labels"]
    assert other["spec"]["tolerations"] != "changed"
    assert builder.pod("gpu-1", node="b") == other


def test_a_template_in_its_plain_form_is_the_same_template() -> None:
    owner = nodeset(template=RICH)
    assert msgspec.json.decode(plain(owner.spec.template)) == RICH
