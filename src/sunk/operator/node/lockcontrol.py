"""Bring the lock of a Node to what `plan` says: write, list, wait.

    Take       one patch: taint and `pending`
    Look       the Pods of the Node, by a list that begins after the taint was acknowledged; nobody there: one patch
    Linger     later
    Release    one patch, after the Pod was read once more: a watch may be silent, and a job may have come meanwhile

One call takes all steps that are due, since each begins with the answer to the one before: an empty Node is locked by two
writes and a list in a row. Every write depends on the version that it was decided on. What has changed meanwhile is read
and decided again, so a kubelet's report costs another try and never a taint.

Whoever is in the way is waited for by events of its Pod: `pending` has the Nodes with a lock on its way, and whoever
hears of Pods looks there. As long as the cache shows somebody in the way there is nothing to list. A watch may be silent,
so the server is asked every few seconds all the same.

What is remembered here is only for people and for fewer requests: since when somebody waits, and when was listed last. A
process that begins with nothing comes to the same lock.
"""

import logging
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Final

from msgspec import Struct

from sunk.kube.api.client import Scope
from sunk.kube.api.patch import Json
from sunk.kube.core import Node, Pod
from sunk.kube.errors import Conflict, Invalid, KubeError, NotFound
from sunk.model import loopclock
from sunk.model.contract import lock
from sunk.model.contract.lock import LockAnswer, LockRequest
from sunk.model.kubernetes.taints import described
from sunk.objects.computepods import finished
from sunk.operator.caches import SharedCaches
from sunk.operator.lockmetrics import Kind, LockMetrics
from sunk.operator.node.lock import (
    TAINT,
    Linger,
    LockAction,
    Look,
    Release,
    Take,
    has_lost_its_taint,
    is_marked,
    is_tainted,
    is_wanted,
    operations,
    plan,
    request_of,
)
from sunk.operator.node.lockevents import LockEvents, waiting_note
from sunk.operator.node.tenants import TENANTS, Tenant, in_the_way, tenant
from sunk.service.part import Setting

log = logging.getLogger(__name__)

STEPS: Final = 8
"""Of one call. An empty Node takes two, and each write of others in between one more."""
AGAIN: Final = 0.1
"""Seconds until the next call, if others have written all the time."""
RELIST: Final = 5.0
"""Seconds after which the server is asked who is in the way, though no event has come."""
WAITED: Final = 30.0
"""Seconds after which people are told who keeps a job waiting."""


class TaintLost(KubeError):  # noqa: N818 - named as in sunk.kube.errors
    """Something between us and the database takes our taint off, such as a webhook. It is tried again, ever more slowly."""


class LockSubject(Struct, frozen=True):
    """A Node that belongs to a NodeSet, as far as its lock depends on it."""

    node: Node
    pod: Pod | None
    slurm_only: bool = False


class LockProgress(Struct, frozen=True):
    wrote: bool = False
    wait: float | None = None
    """Seconds until there is something to do though nothing changes."""


class PendingLock(Struct):
    """A lock on its way: for which request, since when, and what was done about those in the way."""

    number: int
    owner: str
    asked: float
    blocked: float | None = None
    listed: float | None = None
    noted: str = ""


class LockControl:
    """The door to locks: nothing else writes them."""

    def __init__(self, setting: Setting, shared: SharedCaches, *, linger: float, metrics: LockMetrics) -> None:
        self._client = setting.client
        self._nodes = shared.nodes
        self._pods = shared.pods
        self._linger = timedelta(seconds=linger)
        self._metrics = metrics
        self._events = LockEvents(setting.recorder)
        self.pending: Final[dict[str, PendingLock]] = {}
        """By Node. Changes of Pods on one of these concern us."""

    async def follow(self, read: Callable[[], LockSubject | None]) -> LockProgress:
        """Take all steps that are due. `read` gives what the caches have now; none if it is no longer a member."""
        wrote = False
        for _ in range(STEPS):
            subject = read()
            action = self._plan(subject)
            if subject is None or action is None:
                return LockProgress(wrote)
            if isinstance(action, Linger):
                return LockProgress(wrote, wait=action.seconds)
            if (wait := await self._obstacle(subject, action)) is not None:
                return LockProgress(wrote, wait=wait)
            subject = read()
            if subject is not None and self._plan(subject) == action:
                wrote = await self._carry_out(subject, action) or wrote
        return LockProgress(wrote, wait=AGAIN)

    async def leave(self, read: Callable[[], Node | None]) -> LockProgress:
        """Take everything of a lock from a Node that is nobody's. `read` gives it as it is; none if it is somebody's.

        It keeps the lock while the Pod that has it runs something: a claim can be taken off by hand.
        """
        wrote = False
        for _ in range(STEPS):
            node = read()
            if node is None or not is_marked(node):
                return LockProgress(wrote)
            self.forget(node.metadata.name)
            if self._is_in_use(node):
                return LockProgress(wrote, wait=RELIST)
            wrote = await self._write(node, None, kind="leave") or wrote
        return LockProgress(wrote, wait=AGAIN)

    def forget(self, node: str) -> None:
        self.pending.pop(node, None)

    # Deciding

    def _plan(self, subject: LockSubject | None) -> LockAction | None:
        if subject is None:
            return None
        now = self._client.clock.now()
        action = plan(subject.node, subject.pod, slurm_only=subject.slurm_only, linger=self._linger, now=now)
        if isinstance(action, Take | Look):
            self._note(subject.node.metadata.name, action.answer)
        else:
            self.forget(subject.node.metadata.name)
        return action

    def _note(self, node: str, answer: LockAnswer) -> None:
        """Remember since when a request is known. Another one goes on waiting for the same Pods."""
        known = self.pending.get(node)
        if known is None or known.owner != answer.owner:
            self.pending[node] = PendingLock(answer.number, answer.owner, asked=loopclock.now())
        elif known.number != answer.number:
            known.number, known.asked = answer.number, loopclock.now()

    def _is_in_use(self, node: Node) -> bool:
        held = lock.answer(node.metadata.annotations)
        if held is None or not held.owner:
            return False
        pods = self._pods.store.by("compute", node.metadata.name)
        return any(pod.metadata.uid == held.owner and is_wanted(pod) and not finished(pod) for pod in pods)

    # What has to be known before a write

    async def _obstacle(self, subject: LockSubject, action: Take | Look | Release) -> float | None:
        """See whether something speaks against it. Gives the seconds until another try; none if nothing does."""
        if isinstance(action, Look):
            return await self._await_tenants(subject, action)
        if isinstance(action, Release) and subject.pod is not None:
            await self._pods.confirm(subject.pod.key)
        return None

    async def _await_tenants(self, subject: LockSubject, action: Look) -> float | None:
        name, now = subject.node.metadata.name, loopclock.now()
        known = self.pending[name]
        found = self._cached(subject)
        if not found or (known.listed is not None and known.listed + RELIST <= now):
            # Known as pending by now: what happens to a Pod during the list calls us again.
            known.listed = now
            found = await self._listed(subject)
        if not found:
            known.blocked = None
            return None
        if known.listed is None:
            known.listed = now
        await self._acknowledge(subject.node, action)
        self._tell_who(subject.node, known, waiting_note(found, action.request))
        return max(known.listed + RELIST - loopclock.now(), AGAIN)

    async def _acknowledge(self, node: Node, action: Look) -> None:
        """Say that a request is known though somebody is in the way.

        Otherwise an answer to an earlier one would stand there, and whoever waits in vain could not tell work that does not
        leave, which drains the node until a person has looked, from an operator that does not run.
        """
        held, wanted = lock.answer(node.metadata.annotations), action.answer
        if held is None or held.number < wanted.number:
            await self._write(node, LockAnswer(lock.PENDING, wanted.number, wanted.owner), kind="take")

    def _tell_who(self, node: Node, known: PendingLock, note: str) -> None:
        now = loopclock.now()
        known.blocked = now if known.blocked is None else known.blocked
        if now - known.blocked >= WAITED and known.noted != note:
            known.noted = note
            self._events.waiting(node, note)

    def _cached(self, subject: LockSubject) -> tuple[Tenant, ...]:
        return _in_the_way(map(tenant, self._pods.store.by("node", subject.node.metadata.name)), subject)

    async def _listed(self, subject: LockSubject) -> tuple[Tenant, ...]:
        """Ask the server itself: without a version its answer is as new as the question."""
        scope = Scope(fields=f"spec.nodeName={subject.node.metadata.name}")
        return _in_the_way((await self._client.list(TENANTS, scope, page=0)).items, subject)

    # Writing

    async def _carry_out(self, subject: LockSubject, action: Take | Look | Release) -> bool:
        """Write what was decided. Returns whether that was possible."""
        match action:
            case Take(answer):
                return await self._take(subject, answer)
            case Release(answer):
                return await self._write(subject.node, answer, kind="release")
        if not await self._write(subject.node, action.answer, kind="answer"):
            return False
        if known := self.pending.pop(subject.node.metadata.name, None):
            self._metrics.locked(loopclock.now() - known.asked)
        return True

    async def _take(self, subject: LockSubject, answer: LockAnswer) -> bool:
        evicted = self._cached(subject)
        if has_lost_its_taint(subject.node):
            self._metrics.taint_missing()
            log.warning("Node %s has lost the taint of its lock, which is put back", subject.node.metadata.name)
        if not await self._write(subject.node, answer, kind="take"):
            return False
        self._events.evicting(subject.node, evicted, _request(subject))
        return True

    async def _write(self, node: Node, answer: LockAnswer | None, *, kind: Kind) -> bool:
        """Write it upon the version that was read. If that has changed, the caches know it when this returns."""
        try:
            written = await self._nodes.patch(node.key, Json(operations(node, answer)))
        except (Conflict, NotFound):  # the collection has read it again
            return False
        except Invalid:
            # Of another version too: what an operation removes is not there, or the Node is another by its uid.
            found = await self._nodes.confirm(node.key)
            if found is not None and found.metadata.resource_version == node.metadata.resource_version:
                raise
            return False
        self._metrics.wrote(kind)
        if kind == "take" and not is_tainted(written):
            self._metrics.taint_missing()
            raise TaintLost(
                f"Node {node.metadata.name}: the API server took the taint {described(TAINT)} and dropped it"
            )
        return True


def _request(subject: LockSubject) -> LockRequest:
    found = None if subject.pod is None else request_of(subject.pod)
    return found or LockRequest()


def _in_the_way(pods: Iterable[Tenant], subject: LockSubject) -> tuple[Tenant, ...]:
    request = _request(subject)
    compute = "" if subject.pod is None else subject.pod.metadata.uid
    return in_the_way(pods, request, compute=compute, strict=request.strict)
