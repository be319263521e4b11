"""Which Pods stand in the way of a lock."""

from typing import Any

import msgspec
import pytest

from sunk.kube.core import Pod
from sunk.model import names
from sunk.model.contract.lock import JobRun, LockRequest
from sunk.operator.node.tenants import MIRROR, Tenant, in_the_way, tenant as from_cache

REQUEST = LockRequest(1, runs=(JobRun(7),))
RUNNING: dict[str, Any] = {"name": "main", "state": {"running": {}}}
ENDED: dict[str, Any] = {"name": "main", "state": {"terminated": {"exitCode": 0}}}
WAITING: dict[str, Any] = {"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}
GOING = {"deletionTimestamp": "2026-11-18T10:00:00Z"}


def tenant(
    *, meta: dict[str, Any] | None = None, status: dict[str, Any] | None = None, tolerations: tuple[Any, ...] = ()
) -> Tenant:
    body = {
        "metadata": {"name": "tenant", "namespace": "web", "uid": "tenant"} | (meta or {}),
        "spec": {"tolerations": tolerations},
        "status": {"phase": "Running", "containerStatuses": [RUNNING]} | (status or {}),
    }
    return msgspec.convert(body, Tenant)


def counts(pod: Tenant, *, strict: bool = False, request: LockRequest = REQUEST) -> bool:
    return bool(in_the_way([pod], request, compute="compute", strict=strict))


def test_a_plain_pod_has_to_go() -> None:
    assert counts(tenant())


def test_the_compute_pod_itself_stays() -> None:
    assert not counts(tenant(meta={"uid": "compute"}))


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"key": names.LOCK, "operator": "Exists"},
        {"key": names.LOCK, "operator": "Exists", "effect": "NoExecute"},
        {"key": names.LOCK, "value": "true"},
    ],
)
def test_what_tolerates_the_lock_stays(toleration: dict[str, Any]) -> None:
    assert not counts(tenant(tolerations=(toleration,)))
    assert not counts(tenant(tolerations=(toleration,)), strict=True)


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists", "tolerationSeconds": 300},
        {"key": names.LOCK, "operator": "Exists", "tolerationSeconds": 0},
        {"key": names.LOCK, "operator": "Exists", "effect": "NoSchedule"},
        {"key": names.LOCK, "value": "false"},
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists"},
    ],
)
def test_what_tolerates_it_for_some_time_or_something_else_has_to_go(toleration: dict[str, Any]) -> None:
    assert counts(tenant(tolerations=(toleration,)))


def test_of_several_tolerations_the_first_that_matches_decides() -> None:
    bounded = {"operator": "Exists", "tolerationSeconds": 300}
    unbounded = {"key": names.LOCK, "operator": "Exists"}
    assert counts(tenant(tolerations=(bounded, unbounded))), "Kubernetes evicts it after 300 s"
    assert not counts(tenant(tolerations=(unbounded, bounded)))


def test_a_pod_of_the_cache_counts_unless_the_list_may_know_more() -> None:
    body = {"metadata": {"name": "web", "uid": "web"}, "status": {"phase": "Running", "containerStatuses": [RUNNING]}}
    assert counts(from_cache(msgspec.convert(body, Pod)))
    going = body | {"metadata": {"name": "web", "uid": "web"} | GOING}
    assert counts(from_cache(msgspec.convert(going, Pod)))
    ended = going | {"status": {"phase": "Running", "containerStatuses": [ENDED]}}
    assert not counts(from_cache(msgspec.convert(ended, Pod)))


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_what_has_finished_stays_but_a_strict_lock_waits_if_it_is_told_to_go(phase: str) -> None:
    status = {"phase": phase, "containerStatuses": [ENDED]}
    assert not counts(tenant(status=status))
    assert not counts(tenant(status=status), strict=True)
    assert not counts(tenant(meta=GOING, status=status))
    assert counts(tenant(meta=GOING, status=status), strict=True)


def test_mirror_pods_stay() -> None:
    assert not counts(tenant(meta={"annotations": {MIRROR: "x"}}))


def test_who_is_told_to_go_counts_until_its_containers_have_ended_and_strictly_until_it_is_gone() -> None:
    ended = tenant(meta=GOING, status={"containerStatuses": [ENDED]})
    assert counts(tenant(meta=GOING))
    assert not counts(ended)
    assert counts(ended, strict=True)


@pytest.mark.parametrize("kind", ["initContainerStatuses", "ephemeralContainerStatuses"])
def test_every_kind_of_container_counts(kind: str) -> None:
    assert counts(tenant(meta=GOING, status={"containerStatuses": [ENDED], kind: [RUNNING]}))


@pytest.mark.parametrize("statuses", [[], [WAITING], [ENDED, WAITING]])
def test_what_may_be_starting_counts(statuses: list[Any]) -> None:
    assert counts(tenant(meta=GOING, status={"phase": "Pending", "containerStatuses": statuses}))


@pytest.mark.parametrize(
    ("job", "stays"),
    [("7", True), ("8", False), ("", False), ("seven", False), ("-7", False), ("٧", False), ("1" * 5000, False)],
)
def test_a_pod_placed_by_slurm_stays_only_while_its_job_holds_the_node(job: str, *, stays: bool) -> None:
    everything = ({"operator": "Exists"},)
    assert counts(tenant(meta={"annotations": {names.JOB_ID: job}}, tolerations=everything)) is not stays


def test_a_job_that_anybody_may_name_saves_no_pod_that_the_taint_evicts() -> None:
    assert counts(tenant(meta={"annotations": {names.JOB_ID: "7"}}))
    assert counts(tenant(meta={"annotations": {names.JOB_ID: "7"}} | GOING))
