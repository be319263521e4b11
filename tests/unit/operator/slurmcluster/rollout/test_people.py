"""What people see of their directories."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from sunk.kube.resource import Metadata
from sunk.model.cluster.directory import Directory, DirectoryService
from sunk.model.cluster.kind import SlurmClusterSpec, SlurmClusterStatus
from sunk.model.contract.people import DirectoryReport, PeopleReport
from sunk.model.nodeset import Condition
from sunk.operator.slurmcluster.rollout import people
from sunk.operator.slurmcluster.rollout.people import PUBLISHED, AgentObservation, news
from sunk.operator.slurmcluster.rollout.status import (
    ClusterObservation,
    ConfigurationProgress,
    Workload,
    WorkloadStatus,
    status,
)

KIND = "DirectoriesAvailable"
MAIN = DirectoryReport("main", "Available", users=3, groups=1)
OTHER = DirectoryReport("other", "Available", users=1, groups=1)
SPEC = SlurmClusterSpec(directory_service=DirectoryService(directories=(Directory(name="main"),)))
UP = WorkloadStatus(ready_replicas=1, updated_replicas=1)
META = Metadata(name="slurm", namespace="team", generation=1)


def report(*directories: DirectoryReport, settings: str = "now") -> str:
    return msgspec.json.encode(PeopleReport(settings=settings, directories=directories)).decode()


def seen(
    text: str = "", *, spec: SlurmClusterSpec = SPEC, there: bool = True, before: SlurmClusterStatus | None = None
) -> SlurmClusterStatus:
    parts = ("controller", "accounting", "mysql", "login", "syncer", *(("directory",) if there else ()))
    observed = ClusterObservation(
        workloads={name: Workload(metadata=Metadata(name=name), status=UP) for name in parts},
        node_sets=(),
        configuration=ConfigurationProgress("a", "a"),
        agent=AgentObservation(report=text, settings="now"),
    )
    return status(META, spec, before=before or SlurmClusterStatus(), observed=observed)


def said(text: str = "", **more: Any) -> tuple[str, str, str]:
    (found,) = (each for each in seen(text, **more).conditions if each.type == KIND)
    return found.status, found.reason, found.message


def test_a_cluster_without_directories_lacks_none() -> None:
    assert said(spec=SlurmClusterSpec()) == ("True", "NotWanted", "no directory is enabled")
    off = DirectoryService(directories=(Directory(enabled=False),))
    assert said(spec=SlurmClusterSpec(directory_service=off))[1] == "NotWanted"


def test_users_and_groups_are_counted() -> None:
    assert said(report(MAIN)) == ("True", "Available", "3 users and 1 group of main")
    assert said(report(MAIN, OTHER))[2] == "4 users and 2 groups of main, other"


def test_what_was_left_out_is_told_with_examples() -> None:
    left = msgspec.structs.replace(MAIN, skipped=7, examples=("a: no uid", "b: no uid", "c: no uid", "d: no uid"))
    assert said(report(left))[2] == "3 users and 1 group of main; 7 entries left out: a: no uid; b: no uid; c: no uid"
    assert said(report(msgspec.structs.replace(MAIN, skipped=1)))[2].endswith("; 1 entry left out")


@pytest.mark.parametrize("state", ["Unreachable", "Refused", "Invalid", "Suspect"])
def test_the_first_directory_that_does_not_work_is_the_reason_and_the_others_are_named(state: str) -> None:
    words = "directoryService.directories[1].ldapUri: nobody answers"
    found = said(report(MAIN, DirectoryReport("b", state, words), DirectoryReport("c", "Refused", "wrong password")))
    assert found == ("False", state, f"b: {words}; c: Refused; users who are known stay known")


def test_a_directory_without_words_is_told_by_its_state() -> None:
    assert said(report(DirectoryReport("b", "Suspect")))[2] == "b: Suspect; users who are known stay known"


def test_an_agent_that_is_not_there_is_told() -> None:
    assert said(there=False) == ("False", "NotMade", "directory not created yet; users who are known stay known")
    assert said(report(MAIN), there=False)[:2] == ("False", "NotMade")
    assert said("") == ("False", "Waiting", "the directory agent has not reported yet")


def test_a_report_about_other_values_says_nothing_about_these() -> None:
    found = said(report(MAIN, settings="before"))
    assert found[:2] == ("False", "Waiting")
    assert "has not read the latest values yet" in found[2]


@pytest.mark.parametrize("text", ["{", "[]", '{"directories":[{"name":1}]}', "null"])
def test_a_report_that_cannot_be_read_is_told(text: str) -> None:
    found = said(text)
    assert found[:2] == ("False", "Unreadable")
    assert found[2].startswith("the report of the directory agent cannot be read: ")


@pytest.mark.parametrize("text", ["", "{", report(DirectoryReport("b", "Unreachable", "x"))])
@pytest.mark.parametrize("there", [True, False])
def test_no_directory_keeps_people_from_using_the_cluster(text: str, *, there: bool) -> None:
    ready, *_ = seen(text, there=there).conditions
    assert ready.type == "Ready"
    assert KIND not in ready.message
    assert "directory" not in ready.message


def condition(holds: str, reason: str, message: str = "") -> Condition:
    return Condition(KIND, "True" if holds else "False", datetime.now(UTC), reason, message)


GOOD, DOWN = condition("yes", "Available", "3 users"), condition("", "Unreachable", "nobody answers")


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        (None, DOWN, True),
        (GOOD, DOWN, True),
        (DOWN, DOWN, False),
        (DOWN, condition("", "Unreachable", "another"), True),
        (DOWN, condition("", "Refused", "nobody answers"), True),
        (DOWN, GOOD, True),
        (GOOD, GOOD, False),
        (GOOD, condition("yes", "Available", "4 users"), False),
        (None, GOOD, False),
        (condition("", "Waiting"), GOOD, False),
        (GOOD, condition("", "NotReady"), False),
        (DOWN, condition("", "Waiting"), False),
        (GOOD, condition("", "Unreadable", "x"), True),
        (DOWN, condition("yes", "NotWanted"), False),
    ],
)
def test_an_event_comes_when_something_of_a_directory_changes(
    before: Condition | None, now: Condition, *, told: bool
) -> None:
    other = Condition("Ready", "True", datetime.now(UTC), "Available")
    found = news((other, before) if before else (other,), (other, now))
    assert (found is now) is told


def test_of_the_config_map_only_the_report_is_kept() -> None:
    data = {"passwd": "x" * 100, "report": "{}"}
    body = msgspec.json.encode({"metadata": {"name": "slurm-directory"}, "data": data})
    found = msgspec.json.decode(body, type=PUBLISHED.record)
    assert msgspec.to_builtins(found.data) == {"report": "{}"}
    empty = msgspec.json.decode(b'{"metadata":{"name":"slurm-directory"}}', type=PUBLISHED.record)
    assert empty.data.report == ""


def test_the_condition_is_that_of_the_contract() -> None:
    assert people.KIND == KIND
