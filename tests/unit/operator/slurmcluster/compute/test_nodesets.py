"""Compute nodes: what Slurm gets, what Pods ask for, what jobs find."""

from typing import Any

import msgspec
import pytest
from tests.unit.operator.slurmcluster.clusters import built, cluster, container, only, pod, with_nodes

from sunk.model.names import ACCELERATOR, SHAPE
from sunk.model.refusal import Refusal
from sunk.operator.nodeset.observe.template import read
from sunk.operator.slurmcluster.builders import pods
from sunk.operator.slurmcluster.builders.metadata import SCRIPTS_HASH
from sunk.operator.slurmcluster.compute.nodesets import node_line, shape
from sunk.operator.slurmcluster.objects import objects
from sunk.operator.slurmcluster.slurmconf.shares import share

BIG = {"limits": {"cpu": "32", "memory": "200Gi", ACCELERATOR: "8"}, "requests": {"cpu": "30", "memory": "200Gi"}}


def introduced(resources: dict[str, Any], **more: Any) -> dict[str, str]:
    made = with_nodes(cpu={"resources": resources} | more)
    pairs = (word.partition("=") for word in node_line(made, only(made)).split())
    return {key: value for key, _, value in pairs}


def requests(**definition: Any) -> dict[str, str]:
    asked: dict[str, str] = container(with_nodes(cpu=definition), "NodeSet", "slurm-cpu")["resources"].get(
        "requests", {}
    )
    return asked


def test_slurms_share_comes_from_limits_then_requests_less_the_reserve() -> None:
    assert introduced(BIG)["CPUs"] == "32"
    assert introduced(BIG)["RealMemory"] == str(196 * 1024)
    asked = introduced({"requests": {"cpu": "7500m", "memory": "8Gi"}})
    assert (asked["CPUs"], asked["RealMemory"]) == ("7", str(4 * 1024))
    assert introduced(BIG, skuCpu=64)["CPUs"] == "64"
    assert introduced({"limits": {"cpu": "500m", "memory": "8Gi"}})["CPUs"] == "1"


def test_what_nobody_says_comes_from_the_node() -> None:
    said = introduced({})
    assert said["CPUs"] == "$(SUNK_CPUS)"
    assert said["RealMemory"] == "$(SUNK_MEMORY)"
    assert said["MemSpecLimit"] == "4096"
    env = {one["name"]: one for one in container(with_nodes(cpu={}), "NodeSet", "slurm-cpu")["env"]}
    assert env["SUNK_MEMORY"]["valueFrom"]["resourceFieldRef"]["divisor"] == "1Mi"


def test_a_record_is_born_drained_where_a_syncer_lifts_it() -> None:
    made = with_nodes(cpu={})
    assert node_line(made, only(made)).endswith('State=DRAIN Reason="k8s: new node"')
    assert container(made, "NodeSet", "slurm-cpu")["args"][-1] == node_line(made, only(made))
    alone = cluster({"syncer": {"enabled": False}, "compute": {"nodes": {"cpu": {"enabled": True}}}})
    assert "State=" not in node_line(alone, only(alone))


def test_a_node_without_memory_for_jobs_is_refused() -> None:
    made = with_nodes(cpu={"resources": {"limits": {"memory": "4Gi"}}})
    with pytest.raises(Refusal, match=r"^compute\.nodes\.cpu\.resources: .*reservedMemory"):
        share(only(made), reserved="4Gi")


def test_an_idle_node_leaves_its_machine_to_others() -> None:
    assert requests(resources=BIG) == {"cpu": "100m", "memory": "4Gi"}
    assert requests(resources={"limits": {"memory": "64Gi", ACCELERATOR: "8"}})["cpu"] == "100m"
    assert requests(resources={"requests": {"cpu": "50m", "memory": "5Gi"}}) == {"cpu": "50m", "memory": "4Gi"}
    limits = container(with_nodes(cpu={"resources": BIG}), "NodeSet", "slurm-cpu")["resources"]["limits"]
    assert limits == {"cpu": "32", "memory": "200Gi", ACCELERATOR: "8"}


def test_a_node_for_slurm_alone_asks_for_what_it_is_given() -> None:
    assert requests(resources=BIG, sharing="slurmOnly") == {"cpu": "30", "memory": "200Gi"}
    made = with_nodes(cpu={"resources": BIG, "sharing": "slurmOnly"})
    assert built(made, "NodeSet", "slurm-cpu")["spec"]["sharing"] == "slurmOnly"


def test_a_request_above_its_limit_is_refused_before_kubernetes_does() -> None:
    resources = {"limits": {"cpu": "8", "memory": "10Gi"}, "requests": {"cpu": "4", "memory": "18Gi"}}
    assert requests(resources=resources)["memory"] == "4Gi", "lowered anyway"
    with pytest.raises(Refusal, match=r"cpu\.resources: requests\.memory is 18Gi, .* limits\.memory, 10Gi"):
        requests(resources=resources, sharing="slurmOnly")


def test_whoever_claims_gpus_under_their_common_name_does_not_share() -> None:
    claimed = {"limits": {"memory": "64Gi", "nvidia.com/gpu": "8"}, "requests": {"cpu": "30"}}
    made = with_nodes(cpu={"resources": claimed})
    assert built(made, "NodeSet", "slurm-cpu")["spec"]["sharing"] == "slurmOnly"
    assert requests(resources=claimed) == {"cpu": "30"}


def test_a_node_joins_by_itself_under_the_name_of_its_pod() -> None:
    made = with_nodes(gpu={"gresGpu": "h100:8", "features": ["las1"], "staticFeatures": ["las1", "ib"]})
    args = container(made, "NodeSet", "slurm-gpu")["args"]
    assert args[: args.index("--conf-server") + 2] == [
        *("slurmd", "--", "-Z", "-N", "$(POD_NAME)", "--conf-server", "slurm-controller:6817")
    ]
    assert "Gres=gpu:h100:8" in args[-1].split()
    assert "Feature=slurm-gpu,las1,ib" in args[-1].split()


def test_the_nodeset_says_what_the_definition_says() -> None:
    made = with_nodes(
        {"maxUnavailable": "20%"},
        rtx4000={"replicas": 2, "dynamicFeatures": {"driver": {"prefix": "d-"}}, "naming": "ordinal"},
        other={"maxUnavailable": 3, "podNamePrefix": "mine", "updateStrategy": "OnDelete"},
    )
    spec = built(made, "NodeSet", "slurm-rtx4000")["spec"]
    assert (spec["replicas"], spec["cluster"], spec["podNamePrefix"]) == (2, "slurm", "slurm-rtx4000")
    assert spec["naming"] == "ordinal"
    assert spec["features"]["dynamicFeatures"] == {"driver": {"prefix": "d-"}}
    assert spec["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": "20%"}
    other = built(made, "NodeSet", "slurm-other")["spec"]
    assert "replicas" not in other
    assert other["podNamePrefix"] == "mine"
    assert other["updateStrategy"] == {"type": "OnDelete", "rollingUpdate": {"maxUnavailable": 3}}


def test_the_nodeset_controller_can_read_the_template() -> None:
    template = built(with_nodes(cpu={"resources": BIG}), "NodeSet", "slurm-cpu")["spec"]["template"]
    assert read(msgspec.json.encode(template)).spec.priority_class_name == "sunk-compute"


def test_jobs_outlive_trouble_of_slurmd() -> None:
    slurmd = container(with_nodes(cpu={}), "NodeSet", "slurm-cpu")
    assert "livenessProbe" not in slurmd
    assert slurmd["startupProbe"]["failureThreshold"] == pods.NEVER
    # A connection that says nothing is an error in the log of slurmd.
    assert "tcpSocket" not in slurmd["readinessProbe"]
    assert ":1AA2 " in slurmd["readinessProbe"]["exec"]["command"][2]
    assert "/etc/sunk/scripts/leave" in slurmd["lifecycle"]["preStop"]["exec"]["command"][-1]


def test_the_environment_of_a_definition_is_handed_on_by_name() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
    said = {one["name"]: one for one in container(with_nodes(cpu={"env": env}), "NodeSet", "slurm-cpu")["env"]}
    assert said["SUNK_JOB_ENV"]["value"] == "A B"
    assert said["B"]["valueFrom"]["secretKeyRef"]["name"] == "s"


@pytest.mark.parametrize("name", ["POD_NAME", "SUNK_JOB_ENV"])
def test_variables_of_ours_cannot_be_taken(name: str) -> None:
    with pytest.raises(Refusal, match=rf"^compute\.nodes\.cpu\.env: {name}"):
        objects(with_nodes(cpu={"env": [{"name": name, "value": "x"}]}))


def test_scripts_of_people_lie_where_init_looks_for_them() -> None:
    s6 = {"packages": {"type": "oneshot", "script": "apt", "timeoutUp": 7}, "nginx": {"type": "longrun", "script": "n"}}
    made = with_nodes({"s6": s6}, cpu={})
    data = built(made, "ConfigMap", "slurm-compute-s6")["data"]
    (volume,) = [one for one in pod(made, "NodeSet", "slurm-cpu")["volumes"] if one["name"] == "s6"]
    laid = {item["path"]: data[item["key"]] for item in volume["configMap"]["items"]}
    assert laid["packages/type"] == "oneshot"
    assert laid["packages/timeout-up"] == "7"
    assert laid["nginx/script"] == "n"
    assert "nginx/timeout-up" not in laid


def hashed(**compute: Any) -> str:
    template = built(with_nodes(compute, cpu={}), "NodeSet", "slurm-cpu")["spec"]["template"]
    said: str = template["metadata"]["annotations"][SCRIPTS_HASH]
    return said


def test_pods_are_recreated_for_scripts_that_run_when_they_start_and_not_for_others() -> None:
    script = {"type": "oneshot", "script": "true"}
    assert hashed(s6={"a": script}) != hashed()
    assert hashed(s6={"a": script}) != hashed(s6={"a": script | {"script": "false"}})
    changed = cluster({"slurmConfig": {"killWait": 60}, "compute": {"nodes": {"cpu": {"enabled": True}}}})
    assert built(changed, "NodeSet", "slurm-cpu") == built(with_nodes(cpu={}), "NodeSet", "slurm-cpu")


@pytest.mark.parametrize("name", ["../x", "A", "a b", "0-sunk-environment", ""])
def test_the_name_of_a_script_cannot_lead_elsewhere(name: str) -> None:
    with pytest.raises(Refusal, match=r"^compute\.s6\."):
        objects(with_nodes({"s6": {name: {"type": "oneshot", "script": "true"}}}, cpu={}))


def test_only_enabled_definitions_become_nodes_and_layers_count() -> None:
    nodes = {
        "small": {"resources": {"limits": {"memory": "8Gi"}}, "features": ["small"]},
        "mine": {"enabled": True, "definitions": ["small", "region"], "features": ["own"]},
    }
    layers = {"region": {"features": ["las1"]}, "base": {"tolerations": [{"key": "x", "operator": "Exists"}]}}
    made = cluster({"compute": {"nodes": nodes, "layers": layers}})
    assert [one.name for one in made.definitions] == ["mine"]
    assert only(made).features == ("small", "las1", "own")
    assert pod(made, "NodeSet", "slurm-mine")["tolerations"] == [{"key": "x", "operator": "Exists"}]


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ({"a": {"definitions": ["nope"]}}, r"^compute\.nodes\.a\.definitions\[0\]: no layer nope"),
        ({"a": {"definitions": ["b"]}, "b": {"definitions": ["a"]}}, "is a cycle"),
        ({"all": {}}, r"^compute\.nodes\.all: "),
        ({"A_b": {}}, r"^compute\.nodes\.A_b: "),
        ({"a" * 60: {}}, "a shorter podNamePrefix"),
        (
            {"a": {"podNamePrefix": "x"}, "c": {"podNamePrefix": "x"}},
            r"^compute\.nodes\.c\.podNamePrefix: a already uses x",
        ),
    ],
)
def test_a_definition_that_cannot_be_is_refused_with_its_path(nodes: dict[str, Any], said: str) -> None:
    enabled = {name: {"enabled": True} | node for name, node in nodes.items()}
    with pytest.raises(Refusal, match=said):
        cluster({"compute": {"nodes": enabled}})


def test_a_pod_says_its_shape_as_far_as_its_definition_decides_it() -> None:
    made = with_nodes(cpu={"resources": BIG})
    assert shape(made, only(made)) == f"CPUs=32 RealMemory={196 * 1024} Gres="
    marks = built(made, "NodeSet", "slurm-cpu")["spec"]["template"]["metadata"]["annotations"]
    assert marks[SHAPE] == shape(made, only(made))
    open_ended = with_nodes(cpu={"resources": {}})
    assert shape(open_ended, only(open_ended)) == "Gres=", "its Node decides the rest"
