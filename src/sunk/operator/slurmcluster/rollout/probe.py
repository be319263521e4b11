"""Probe Pods: they run one command in the image of Slurm, say how it went, and are gone.

The operator never talks to Slurm. Where Slurm itself must judge (is this configuration good?) or be asked (does any job
name this partition?), a Pod with Slurm's own programs and key does it; the termination message of its container says what
came of it.

A probe Pod is named after what it is about, and a name proves nothing: whoever may make Pods in the namespace could have
an answer ready before we ask. So only a Pod that this process has made itself is believed, by its uid. One of ours that
another process has made is made again, which costs seconds; one that is not ours is in the way, and that is said.
"""

import math
from collections.abc import Collection as Several
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct

from sunk.kube.api.client import Deletion, Preconditions
from sunk.kube.cache.collection import Collection
from sunk.kube.core import Pod
from sunk.kube.errors import AlreadyExists, NotFound
from sunk.kube.resource import Key
from sunk.model import names

DEADLINE: Final = 180
RETRY_AFTER: Final = 60.0
"""Seconds after which a probe Pod that ended without an answer is made again."""
_BEGUN_BY: Final = 20.0
"""Seconds after which a Pod on a Node has begun, unless a Secret, a key of one, or a claim is not there."""
_LOOK: Final = "`kubectl -n {} describe pod {}` shows which Secret, key or claim is missing"


class ProbeResult(Struct, frozen=True):
    """What came of a probe Pod: nothing yet, success or not, and its last words, or what keeps it from beginning."""

    done: bool
    succeeded: bool = False
    message: str = ""
    mute: bool = False
    """Whether it ended without a word of its own: from outside, or because its image does not run there."""

    @property
    def refused(self) -> bool:
        return self.done and not self.succeeded


NOT_YET: Final = ProbeResult(done=False)


class ProbePods:
    """Makes probe Pods and reads what came of them."""

    def __init__(self, pods: Collection[Pod]) -> None:
        self._pods = pods
        self._made: dict[Key, str] = {}
        """The uid of each probe Pod that we have made ourselves."""

    async def ask(self, body: dict[str, Any], *, retry_after: float = math.inf) -> ProbeResult:
        """Make the probe Pod unless it is there, and give its result if there is one.

        One that did not go well is made again after `retry_after` seconds, where the world may have changed meanwhile.
        """
        key = Key(body["metadata"]["namespace"], body["metadata"]["name"])
        pod = self._pods.store.get(key)
        if pod is None:
            return await self._make(key, body)
        if self._made.get(key) != pod.metadata.uid:
            if not _owners(body) & _controllers(pod):
                return _in_the_way(key)
            await self._delete(pod)
            return NOT_YET
        result = result_of(pod)
        # One without words was ended from outside, which says nothing about what it was to find out.
        if result.refused and _age(pod) > (retry_after if _last_words(pod) else min(retry_after, RETRY_AFTER)):
            await self._delete(pod)
        return result

    async def _make(self, key: Key, body: dict[str, Any]) -> ProbeResult:
        try:
            made = await self._pods.create(key, body)
        except AlreadyExists:
            # Ours, and not seen yet; or without our label, so that it never will be.
            return _in_the_way(key) if self._pods.store.get(key) is None else NOT_YET
        self._made[key] = made.metadata.uid
        return NOT_YET

    async def clean_up(self, namespace: str, *, cluster: str, uid: str, keep: Several[str] = ()) -> None:
        """Delete the probe Pods of a cluster that nobody waits for any more.

        A label is not enough to be deleted: others may write labels. Only probe Pods have the cluster as their owner.
        """
        for pod in self._pods.store.by("cluster", f"{namespace}/{cluster}"):
            if pod.metadata.name not in keep and uid in _controllers(pod):
                await self._delete(pod)

    async def _delete(self, pod: Pod) -> None:
        if pod.metadata.deletion_timestamp is not None:
            return
        self._made.pop(pod.key, None)
        at = Preconditions(uid=pod.metadata.uid)
        with suppress(NotFound):
            await self._pods.delete(pod.key, Deletion(preconditions=at, grace_period_seconds=0))


def _owners(body: dict[str, Any]) -> set[str]:
    return {owner["uid"] for owner in body["metadata"].get("ownerReferences", ())}


def _controllers(pod: Pod) -> set[str]:
    return {owner.uid for owner in pod.metadata.owner_references if owner.controller}


def _in_the_way(key: Key) -> ProbeResult:
    return ProbeResult(
        done=False, message=f"Pod {key} does not belong to this SlurmCluster and blocks a name it needs: delete it"
    )


def result_of(pod: Pod) -> ProbeResult:
    match pod.status.phase:
        case "Succeeded":
            return ProbeResult(done=True, succeeded=True, message=_last_words(pod))
        case "Failed":
            own = _last_words(pod)
            message = own or hindrance(pod) or pod.status.message or pod.status.reason or "no reason given"
            return ProbeResult(done=True, message=message, mute=not own)
    return ProbeResult(done=False, message=hindrance(pod))


def hindrance(pod: Pod) -> str:
    """Why its container has not begun, where that may last: an image that is not there, no Node for it."""
    for container in pod.status.container_statuses:
        waiting = container.state.waiting
        if waiting is not None and not waiting.starting:
            return f"{waiting.reason}: {waiting.message}"
        if waiting is not None and waiting.reason and _age(pod) > _BEGUN_BY:
            return f"waiting for its volumes: {_LOOK.format(pod.key.namespace, pod.key.name)}"
    unscheduled = (
        condition.message
        for condition in pod.status.conditions
        if condition.type == "PodScheduled" and condition.status == "False"
    )
    return next(unscheduled, "")


def _age(pod: Pod) -> float:
    """Seconds since it ended, or since it was made if nobody knows."""
    terminated = (container.state.terminated for container in pod.status.container_statuses)
    ended = (state.finished_at for state in terminated if state)
    at = next((time for time in ended if time), pod.metadata.creation_timestamp)
    return (datetime.now(UTC) - at).total_seconds() if at else math.inf


def _last_words(pod: Pod) -> str:
    for container in pod.status.container_statuses:
        if container.state.terminated is not None:
            return container.state.terminated.message.strip()
    return ""


def by_cluster(pod: Pod) -> tuple[str, ...]:
    """An index of probe Pods: whose they are."""
    cluster = pod.metadata.labels.get(names.PROBE)
    return (f"{pod.metadata.namespace}/{cluster}",) if cluster else ()
