"""Errands: Pods that run one command in the image of Slurm, say how it went, and are gone.

The operator never talks to Slurm. Where Slurm itself must judge (is this configuration good?) or be told (read it
anew), a Pod with Slurm's own programs and key does it; the last words of its container say what came of it.

An errand is named after what it is about, and a name proves nothing: whoever may make Pods in the namespace could have an
answer ready before we ask. So only a Pod that this process has made itself is believed, by its uid. One of ours that
another process has sent is sent again, which costs seconds; one that is not ours is in the way, and that is said.
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

ERRAND: Final = names.PROBE
"""Label of the Pods; its value is the cluster."""
DEADLINE: Final = 180
AGAIN: Final = 60.0
"""Seconds after which an errand that ended without an answer is sent anew."""
_BEGINNING: Final = ("", "ContainerCreating", "PodInitializing")
_BEGUN_BY: Final = 20.0
"""Seconds after which a Pod on a Node has begun, unless a Secret, a key of one, or a claim is not there."""
_LOOK: Final = "`kubectl -n {} describe pod {}` says which Secret, key or claim is missing"


class Answer(Struct, frozen=True):
    """What came of an errand: nothing yet, or well done, or not, and its last words, or what keeps it from beginning."""

    done: bool
    well: bool = False
    words: str = ""
    mute: bool = False
    """Whether it ended without a word of its own: from outside, or because its image does not run there."""

    @property
    def refused(self) -> bool:
        return self.done and not self.well


NOT_YET: Final = Answer(done=False)


class Errands:
    def __init__(self, pods: Collection[Pod]) -> None:
        self._pods = pods
        self._sent: dict[Key, str] = {}
        """The uid of each errand that we have sent ourselves."""

    async def ask(self, body: dict[str, Any], *, again: float = math.inf) -> Answer:
        """Send the errand unless it is on its way, and give its answer if there is one.

        One that did not go well is sent anew after `again` seconds, where the world may have changed meanwhile.
        """
        key = Key(body["metadata"]["namespace"], body["metadata"]["name"])
        found = self._pods.store.get(key)
        if found is None:
            return await self._send(key, body)
        if self._sent.get(key) != found.metadata.uid:
            if not _owners(body) & _controllers(found):
                return _in_the_way(key)
            await self._take_away(found)
            return NOT_YET
        said = answer(found)
        # One without words was ended from outside, which says nothing about what it was to find out.
        if said.refused and _age(found) > (again if _last_words(found) else min(again, AGAIN)):
            await self._take_away(found)
        return said

    async def _send(self, key: Key, body: dict[str, Any]) -> Answer:
        try:
            made = await self._pods.create(key, body)
        except AlreadyExists:
            # Ours, and not seen yet; or without our label, so that it never will be.
            return _in_the_way(key) if self._pods.store.get(key) is None else NOT_YET
        self._sent[key] = made.metadata.uid
        return NOT_YET

    async def forget(self, namespace: str, *, cluster: str, uid: str, keep: Several[str] = ()) -> None:
        """Take away the errands of a cluster that nobody waits for any more.

        A label is not enough to be taken away: others may write labels. Only errands have the cluster as their owner.
        """
        for pod in self._pods.store.by("cluster", f"{namespace}/{cluster}"):
            if pod.metadata.name not in keep and uid in _controllers(pod):
                await self._take_away(pod)

    async def _take_away(self, pod: Pod) -> None:
        if pod.metadata.deletion_timestamp is not None:
            return
        self._sent.pop(pod.key, None)
        at = Preconditions(uid=pod.metadata.uid)
        with suppress(NotFound):
            await self._pods.delete(pod.key, Deletion(preconditions=at, grace_period_seconds=0))


def _owners(body: dict[str, Any]) -> set[str]:
    return {one["uid"] for one in body["metadata"].get("ownerReferences", ())}


def _controllers(pod: Pod) -> set[str]:
    return {one.uid for one in pod.metadata.owner_references if one.controller}


def _in_the_way(key: Key) -> Answer:
    return Answer(done=False, words=f"Pod {key} is in the way and is not of this SlurmCluster: delete it")


def answer(pod: Pod) -> Answer:
    match pod.status.phase:
        case "Succeeded":
            return Answer(done=True, well=True, words=_last_words(pod))
        case "Failed":
            own = _last_words(pod)
            told = own or hindrance(pod) or pod.status.message or pod.status.reason or "it gave no reason"
            return Answer(done=True, words=told, mute=not own)
    return Answer(done=False, words=hindrance(pod))


def hindrance(pod: Pod) -> str:
    """Why its container has not begun, where that may last: an image that is not there, no Node for it."""
    for container in pod.status.container_statuses:
        waiting = container.state.waiting
        if waiting is not None and waiting.reason not in _BEGINNING:
            return f"{waiting.reason}: {waiting.message}"
        if waiting is not None and waiting.reason and _age(pod) > _BEGUN_BY:
            return f"it waits for what it mounts: {_LOOK.format(pod.key.namespace, pod.key.name)}"
    unplaced = (one.message for one in pod.status.conditions if one.type == "PodScheduled" and one.status == "False")
    return next(unplaced, "")


def _age(pod: Pod) -> float:
    """Seconds since it ended, or since it was sent if nobody knows."""
    ended = [each.state.terminated.finished_at for each in pod.status.container_statuses if each.state.terminated]
    at = next((one for one in ended if one), pod.metadata.creation_timestamp)
    return (datetime.now(UTC) - at).total_seconds() if at else math.inf


def _last_words(pod: Pod) -> str:
    for container in pod.status.container_statuses:
        if container.state.terminated is not None:
            return container.state.terminated.message.strip()
    return ""


def by_cluster(pod: Pod) -> tuple[str, ...]:
    """An index of errands: whose they are."""
    cluster = pod.metadata.labels.get(ERRAND)
    return (f"{pod.metadata.namespace}/{cluster}",) if cluster else ()
