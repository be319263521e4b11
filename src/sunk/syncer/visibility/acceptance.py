"""A person's word that what Slurm says is true, however hard to believe it is.

While many nodes or jobs have vanished at once nothing is deleted, for a slurmctld that lost its state would say the
same. If they are gone because somebody wanted it, only a person can know, and says so by an annotation of the
SlurmCluster whose value names what is hard to believe, as it stands in the report: so nobody accepts what they have not
seen, and what comes later needs a word of its own. What is explained meanwhile needs none: a word stands for all that was
lost when it was copied, and holds for whatever is left of that.

Every copy of the syncer has read Slurm for itself and accepts upon that word for itself. The leader says what came of it,
and notes in the status that this word is answered, also where it was of no use: it cannot lie there until it fits by
chance. The operator then takes the annotation off, for we may write nothing but the status; and once it is off the note
is too, so that the same word can be said again.
"""

import logging
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

from msgspec import json

from sunk.kube.api.patch import Merge
from sunk.kube.control.controller import Controller, Effort, Requeue, Source, itself
from sunk.kube.control.events import about
from sunk.kube.resource import Key
from sunk.model import names
from sunk.model.cluster.kind import LONGEST_WORD, SLURMCLUSTER
from sunk.objects.slurmclusters import SlurmCluster
from sunk.slurm.mirror.confidence import Known, Suspicion
from sunk.syncer.context import Context

log = logging.getLogger(__name__)

SOON: Final = 1.0
RECENT: Final = 32
"""How many words are remembered of the present suspicion."""
_LETTERS: Final = 8


def losses(suspicions: Iterable[Suspicion], *, since: bool = False) -> frozenset[str | int]:
    """What is hard to believe: nodes by name, jobs by number, and all else by its reason.

    With `since` also what was missing at first and is explained by now.
    """
    lost: set[str | int] = set()
    for suspicion in suspicions:
        missing = suspicion.missing | suspicion.lost if since else suspicion.missing
        lost |= missing or {suspicion.reason}
    return frozenset(lost)


def identity(suspicions: Iterable[Suspicion]) -> str:
    """A short name for all that is hard to believe: another one as soon as there is more. Empty if nothing is."""
    lost = sorted(losses(suspicions, since=True), key=lambda item: (isinstance(item, str), item))
    return sha256(json.encode(lost)).hexdigest()[:_LETTERS] if lost else ""


class OfferedWords:
    """The words by which a person could have accepted the present suspicion, and what each of them stands for."""

    def __init__(self) -> None:
        self._recent: dict[str, frozenset[str | int]] = {}

    def note(self, suspicions: Sequence[Suspicion]) -> None:
        """Take what is hard to believe now. When nothing is, earlier words are worth nothing any more."""
        lost = losses(suspicions, since=True)
        if not lost:
            self._recent.clear()
        elif lost not in self._recent.values():  # after every read, of as many jobs as there were: seldom named
            self._recent[identity(suspicions)] = lost
            self._recent = dict([*self._recent.items()][-RECENT:])

    def covers(self, word: str, suspicions: Sequence[Suspicion]) -> bool:
        """Whether the word stands for all that is hard to believe now."""
        self.note(suspicions)
        return bool(suspicions) and losses(suspicions) <= self._recent.get(word, frozenset())


def describe(suspicions: Iterable[Suspicion]) -> str:
    return "; ".join(suspicion.reason for suspicion in suspicions)


def accept_command(suspicions: Iterable[Suspicion], *, cluster: Key) -> str:
    """What a person has to type to accept them."""
    at = f"-n {cluster.namespace} {SLURMCLUSTER.name.lower()} {cluster.name}"
    return f"kubectl annotate {at} {names.ACCEPT_SUSPICION}={identity(suspicions)}"


class SuspicionAcceptance:
    """Trusts Slurm upon a person's word, and answers that person."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._accepted = ("", "")
        """The last word that was heeded, and what it was about."""
        self._offered = OfferedWords()
        context.mirror.subscribe(lambda _: self._offered.note(context.mirror.suspicions))
        context.clusters.store.subscribe(self._on_cluster)
        self.controller: Final[Controller[Key]] = Controller(
            "acceptance", self._reconcile, sources=[Source(context.clusters.store, itself)], effort=Effort(workers=1)
        )

    def _on_cluster(self, _: Key, __: SlurmCluster | None, cluster: SlurmCluster | None) -> None:
        """Also in a copy that does not lead: it may lead tomorrow."""
        word, suspicions = _unanswered(cluster), self._context.mirror.suspicions
        if word and self._offered.covers(word, suspicions):
            self._accepted = word, describe(suspicions)
            log.warning("confirmed by annotation %s: %s", word, describe(suspicions))
            self._context.mirror.accept()

    async def _reconcile(self, key: Key) -> Requeue | None:
        context = self._context
        cluster = context.clusters.store.get(key)
        if cluster is None or _word(cluster) == cluster.status.suspicion_answered:
            return None
        # Who has not read Slurm yet does not know what is hard to believe.
        if not isinstance(context.mirror.state, Known) or not context.may_write():
            return Requeue(after=SOON)
        at = {"uid": cluster.metadata.uid, "resourceVersion": cluster.metadata.resource_version}
        patch = Merge({"metadata": at, "status": {"suspicionAnswered": _word(cluster)}})
        await context.clusters.patch(key, patch, status=True)
        if _word(cluster):
            self._answer(cluster)
        return None

    def _answer(self, cluster: SlurmCluster) -> None:
        regarding = about(cluster, kind=SLURMCLUSTER.name, api_version=SLURMCLUSTER.api_version)
        recorder, word = self._context.recorder, _word(cluster)
        (accepted, description), self._accepted = self._accepted, ("", "")
        if word and word == accepted:
            recorder.tell(regarding, "SuspicionAccepted", f"confirmed: {description}", action="Accept")
            return
        suspicions = self._context.mirror.suspicions
        note = (
            f'"{word}" does not match any pending confirmation; use {identity(suspicions)} for: {describe(suspicions)}'
            if suspicions
            else f'"{word}" is ignored: nothing to confirm'
        )
        recorder.warn(regarding, "NothingAccepted", note, action="Accept")


def _word(cluster: SlurmCluster) -> str:
    """What a person has said, as far as the status has room for it: a longer one accepts nothing."""
    return cluster.metadata.annotations.get(names.ACCEPT_SUSPICION, "").strip()[:LONGEST_WORD]


def _unanswered(cluster: SlurmCluster | None) -> str:
    word = "" if cluster is None else _word(cluster)
    return "" if cluster is None or word == cluster.status.suspicion_answered else word
