"""What there is to say about a member of a NodeSet that is not plainly well."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from msgspec import Struct

from sunk.insight.status.locks import jobs, lock_of
from sunk.kube.core import Node, Pod, condition
from sunk.model import names
from sunk.model.contract import drains
from sunk.model.nodeslice import Entry
from sunk.objects.computepods import cleared, finished, pending_deletion, ready, terminating

LONGEST: Final = 200


class Note(Struct, frozen=True, omit_defaults=True):
    """One thing about a member. `grave` is what should not be so; the rest is somebody's wish, or takes its time."""

    text: str
    since: datetime | None = None
    grave: bool = False


class ObservedMember(Struct, frozen=True):
    """A member and what is there of it. `node_known` is off where Nodes could not be read."""

    entry: Entry
    pod: Pod | None = None
    node: Node | None = None
    node_known: bool = True
    refused: str = ""
    """Why Slurm does not let it go."""
    lock_time: datetime | None = None
    """When the lock of its Node last changed."""


def notes(seen: ObservedMember) -> tuple[Note, ...]:
    """Everything that keeps a member from being plainly well, the weightiest about it first."""
    if seen.entry.state == "parked" and seen.pod is None:
        return ()
    return (*_membership(seen), *_of_node(seen), *_of_pod(seen), *_of_lock(seen))


def _membership(seen: ObservedMember) -> Iterator[Note]:
    if seen.entry.state == "leaving":
        yield Note(line(seen.entry.reason) or "no reason given")
    if seen.refused:
        yield Note(f"Slurm cannot release it: {line(seen.refused)}", grave=True)


def _of_node(seen: ObservedMember) -> Iterator[Note]:
    node = seen.node
    if node is None:
        if seen.node_known:
            yield Note("Node is gone", grave=True)
        return
    told = condition(node.status.conditions, "Ready")
    if told is None or told.status != "True":
        yield Note("Node is not ready", since=told.last_transition_time if told else None, grave=True)
    if node.spec.unschedulable:
        yield Note("cordoned")


def _of_pod(seen: ObservedMember) -> Iterator[Note]:
    pod = seen.pod
    if pod is None:
        gone = seen.entry.state == "leaving"
        yield Note("its Pod is gone, its record in Slurm is not yet" if gone else "no Pod", grave=not gone)
        return
    yield from _life(pod)
    yield from _in_slurm(pod)
    why = pending_deletion(pod)
    if why is not None and not (seen.entry.state == "leaving" and why == seen.entry.reason):
        yield Note(f"marked for deletion: {line(why)}")
    if cleared(pod):
        yield Note("released by Slurm")


def _of_lock(seen: ObservedMember) -> Iterator[Note]:
    found = lock_of(seen.node, seen.pod)
    if found.answer is None:
        yield Note(f"its lock cannot be read: annotation {names.LOCK} of its Node", grave=True)
    elif found.pending:
        waiting = f"{jobs(found.request)} waiting for" if found.request and found.request.runs else "waiting for"
        yield Note(f"lock pending, {waiting} other work to leave", since=seen.lock_time)


def _life(pod: Pod) -> Iterator[Note]:
    if terminating(pod):
        yield Note("Pod is terminating", since=pod.metadata.deletion_timestamp)
    elif finished(pod):
        yield Note(_because(f"Pod has ended ({pod.status.phase})", cause_of(pod)), grave=True)
    elif pod.status.phase != "Running":
        text = _because("Pod is pending", cause_of(pod))
        yield Note(text, since=pod.metadata.creation_timestamp, grave=True)
    elif not ready(pod):
        told = condition(pod.status.conditions, "Ready")
        since = told.last_transition_time if told else None
        yield Note(_because("Pod is not ready", cause_of(pod)), since=since, grave=True)


def _in_slurm(pod: Pod) -> Iterator[Note]:
    drain = condition(pod.status.conditions, names.SLURM_DRAIN)
    if drain is not None and drain.status == "True":
        by = "drained by SUNK" if drain.message.startswith(drains.PREFIX) else "drained in Slurm"
        yield Note(_because(by, line(drain.message)), since=drain.last_transition_time)
    lost = condition(pod.status.conditions, names.SLURM_NOT_RESPONDING)
    if lost is not None and lost.status == "True":
        yield Note("not responding in Slurm", since=lost.last_transition_time, grave=True)


def cause_of(pod: Pod) -> str:
    """Why it is as it is: what a container waits for or ended with, why no Node took it, what the kubelet says."""
    for container in pod.status.container_statuses:
        state = container.state
        if state.waiting is not None and not state.waiting.starting:
            return _joined(container.name, state.waiting.reason, state.waiting.message)
        if state.terminated is not None:
            return _joined(container.name, state.terminated.reason, f"exit code {state.terminated.exit_code}")
    place = condition(pod.status.conditions, "PodScheduled")
    if place is not None and place.status == "False":
        return line(place.message)
    return line(pod.status.message or pod.status.reason)


def _joined(*parts: str) -> str:
    return line(" ".join(filter(None, parts)))


def _because(text: str, why: str) -> str:
    return f"{text}: {why}" if why else text


def line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
