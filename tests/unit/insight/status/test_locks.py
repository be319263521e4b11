"""What the lock of a member is, and since when."""

from typing import Any

import msgspec

from sunk.insight.status.locks import DatedNode, jobs, lock_of, lock_written
from sunk.kube.core import Node, Pod
from sunk.model import names
from sunk.model.contract import lock
from sunk.model.contract.lock import JobRun, LockRequest


def dated(*writes: dict[str, Any], state: str | None = "pending") -> DatedNode:
    notes = {} if state is None else {names.LOCK: state}
    tree = {"metadata": {"name": "node-1", "annotations": notes, "managedFields": list(writes)}}
    return msgspec.json.decode(msgspec.json.encode(tree), type=DatedNode)


def write(time: str, *annotations: str) -> dict[str, Any]:
    owned: dict[str, Any] = {f"f:{each}": {} for each in annotations}
    return {"manager": "sunk", "time": time, "fieldsV1": {"f:metadata": {"f:annotations": {".": {}} | owned}}}


def test_the_time_of_a_lock_is_that_of_whoever_wrote_the_annotation() -> None:
    other = write("2026-01-01T09:00:00Z", names.CLAIM)
    ours = write("2026-01-01T08:00:00Z", names.LOCK, names.LOCK_NUMBER)
    bare = {"manager": "kubelet", "time": "2026-01-01T10:00:00Z", "fieldsV1": {"f:status": {}}}
    found = lock_written(dated(other, ours, bare))
    assert found is not None
    assert found.hour == 8
    assert lock_written(dated(other, bare)) is None
    assert lock_written(dated(ours, state=None)) is None


def test_the_node_is_asked_before_the_copy_on_the_pod() -> None:
    node = msgspec.convert({"metadata": {"annotations": {names.LOCK: "locked", names.LOCK_NUMBER: "7"}}}, Node)
    pod = msgspec.convert({"metadata": {"annotations": {names.LOCK: "pending", names.LOCK_NUMBER: "7"}}}, Pod)
    assert (lock_of(node, pod).locked, lock_of(None, pod).pending) == (True, True)
    assert (lock_of(node, pod).tainted, lock_of(None, pod).tainted) == (False, None)


def test_what_cannot_be_read_is_neither_locked_nor_free() -> None:
    odd = msgspec.convert({"metadata": {"annotations": {names.LOCK: "maybe", names.LOCK_REQUEST: "{"}}}, Pod)
    found = lock_of(None, odd)
    assert (found.answer, found.request, found.locked, found.pending) == (None, None, False, False)


def test_jobs_are_named_and_many_are_counted() -> None:
    assert jobs(None) == jobs(LockRequest(number=4)) == ""
    assert jobs(LockRequest(runs=(JobRun(7), JobRun(7, 1)))) == "job 7"
    many = LockRequest(runs=tuple(JobRun(number) for number in range(8)))
    assert jobs(lock.read(lock.write(many))) == "jobs 0, 1, 2, 3, 4 and 3 more"
