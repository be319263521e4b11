"""Which Pods try a configuration, and which nodes they try."""

from typing import Any

import pytest
from tests.unit.operator.slurmcluster.clusters import cluster, with_nodes

from sunk.operator.slurmcluster.objects import marked
from sunk.operator.slurmcluster.resolve import ResolvedCluster
from sunk.operator.slurmcluster.rollout.trial import Trial, slurm_trials
from sunk.operator.slurmcluster.slurmconf.conf import configuration

OTHER = {"repository": "example.org/slurm-cuda", "tag": "1"}


def trials(made: ResolvedCluster) -> list[Trial]:
    return slurm_trials(made, *marked(configuration(made), cluster=made))


def environment(trial: Trial) -> dict[str, str]:
    (container,) = trial.pod["spec"]["containers"]
    return {one["name"]: one["value"] for one in container["env"]}


def test_one_pod_tries_slurmctld_and_the_nodes_of_its_image() -> None:
    (only,) = trials(with_nodes(cpu={}, gpu={"gresGpu": "h100:8"}, more={"gresGpu": "h100:8"}))
    found = environment(only)
    assert found["NODES"].splitlines() == ["slurm-cpu-000-000", "slurm-gpu-000-000 gpu:h100:8"], "one of each kind"
    assert (found["CONTROLLER"], only.optional) == ("yes", False)


def test_each_other_image_of_nodes_is_tried_by_itself_and_may_not_run_here() -> None:
    first, second = trials(with_nodes(cpu={}, gpu={"image": OTHER, "naming": "ordinal"}))
    assert environment(first)["NODES"] == "slurm-cpu-000-000"
    assert environment(second)["NODES"] == "slurm-gpu-0"
    assert second.pod["spec"]["containers"][0]["image"] == environment(second)["IMAGE"] == "example.org/slurm-cuda:1"
    assert (environment(second)["CONTROLLER"], second.optional) == ("no", True)
    assert first.pod["metadata"]["name"] != second.pod["metadata"]["name"]


def test_without_nodes_slurmctld_is_tried_alone() -> None:
    (only,) = trials(cluster())
    assert environment(only)["NODES"] == ""


def test_a_trial_runs_without_privileges() -> None:
    for each in trials(with_nodes({"securityContext": {"privileged": True}}, cpu={"image": OTHER})):
        (container,) = each.pod["spec"]["containers"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert each.pod["spec"]["securityContext"]["runAsNonRoot"] is True


@pytest.mark.parametrize(
    ("compute", "node", "places"),
    [
        ({}, {}, "/etc/sunk"),
        ({"mounts": [{"name": "/home", "pvc": "home"}]}, {}, "/etc/sunk:/home"),
        (
            {"volumeMounts": [{"name": "a", "mountPath": "/a"}]},
            {"volumeMounts": [{"mountPath": "/b"}]},
            "/etc/sunk:/a:/b",
        ),
        ({"s6": {"bring": {"type": "oneshot", "script": "true"}}}, {}, "/etc/sunk:/"),
    ],
)
def test_what_is_not_in_the_image_is_not_missed(compute: dict[str, Any], node: dict[str, Any], places: str) -> None:
    (only,) = trials(with_nodes(compute, cpu=node))
    assert environment(only)["ELSEWHERE"] == places


def test_a_mend_that_changes_no_file_is_tried_too() -> None:
    before, after = (
        trials(with_nodes(compute, cpu={}))[0] for compute in ({}, {"mounts": [{"name": "/home", "pvc": "home"}]})
    )
    assert before.candidate == after.candidate
    assert before.pod["metadata"]["name"] != after.pod["metadata"]["name"]
