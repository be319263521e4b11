"""A person's word that what Slurm says is true, however hard to believe it is.

While many nodes or jobs have vanished at once nothing is deleted, for a slurmctld that lost its state would say the
same. If they are gone because somebody wanted it, only a person can know. He says so by an annotation of the SlurmCluster
whose value names what is hard to believe, as it stands in the report: so nobody accepts what he has not seen, and what
comes later needs a word of its own. What is explained meanwhile needs none: a word stands for all that was lost when it
was copied, and holds for whatever is left of that.

Every copy of the syncer has read Slurm for itself and believes upon that word for itself. The one that leads says what
came of it, and notes in the status that this word is answered, also where it was of no use: it cannot lie there until it
fits by chance. The operator then takes the annotation off, for we may write nothing but the status; and once it is off
the note is too, so that the same word can be said again.
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
from sunk.objects.clusters import SlurmCluster
from sunk.slurm.mirror.confidence import Known, Suspicion
from sunk.syncer.context import Ground

log = logging.getLogger(__name__)

SOON: Final = 1.0
RECENT: Final = 32
"""How many words are remembered of the present suspicion."""
_LETTERS: Final = 8


def losses(suspicions: Iterable[Suspicion], *, since: bool = False) -> frozenset[str | int]:
    """What is hard to believe: nodes by name, jobs by number, and all else by its reason.

    With `since` also what was missing at first and is explained by now.
    """
    found: set[str | int] = set()
    for one in suspicions:
        found |= (one.missing | one.lost if since else one.missing) or {one.reason}
    return frozenset(found)


def identity(suspicions: Iterable[Suspicion]) -> str:
    """A short name for all that is hard to believe: another one as soon as there is more. Empty if nothing is."""
    told = sorted(losses(suspicions, since=True), key=lambda each: (isinstance(each, str), each))
    return sha256(json.encode(told)).hexdigest()[:_LETTERS] if told else ""


class Offered:
    """The words by which a person could have accepted the present suspicion, and what each of them stands for."""

    def __init__(self) -> None:
        self._recent: dict[str, frozenset[str | int]] = {}

    def note(self, suspicions: Sequence[Suspicion]) -> None:
        """Hear what is hard to believe now. When nothing is, words of before are worth nothing any more."""
        found = losses(suspicions, since=True)
        if not found:
            self._recent.clear()
        elif found not in self._recent.values():  # after every read, of as many jobs as there were: seldom named
            self._recent[identity(suspicions)] = found
            self._recent = dict([*self._recent.items()][-RECENT:])

    def covers(self, word: str, suspicions: Sequence[Suspicion]) -> bool:
        """Whether the word stands for all that is hard to believe now."""
        self.note(suspicions)
        return bool(suspicions) and losses(suspicions) <= self._recent.get(word, frozenset())


def words(suspicions: Iterable[Suspicion]) -> str:
    return "; ".join(one.reason for one in suspicions)


def request(suspicions: Iterable[Suspicion], *, cluster: Key) -> str:
    """What a person has to type to accept it."""
    at = f"-n {cluster.namespace} {SLURMCLUSTER.name.lower()} {cluster.name}"
    return f"kubectl annotate {at} {names.ACCEPT_SUSPICION}={identity(suspicions)}"


class Accepting:
    """Believes Slurm upon a person's word, and answers him."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._accepted = ("", "")
        """The last word that was heeded, and what it was about."""
        self._offered = Offered()
        ground.mirror.subscribe(lambda _: self._offered.note(ground.mirror.suspicions))
        ground.clusters.store.subscribe(self._hear)
        self.controller: Final[Controller[Key]] = Controller(
            "accepting", self._reconcile, sources=[Source(ground.clusters.store, itself)], effort=Effort(workers=1)
        )

    def _hear(self, _: Key, __: SlurmCluster | None, cluster: SlurmCluster | None) -> None:
        """Also where another copy leads: it may not tomorrow."""
        word, found = _unanswered(cluster), self._ground.mirror.suspicions
        if word and self._offered.covers(word, found):
            self._accepted = word, words(found)
            log.warning("a person has accepted %s: %s", word, words(found))
            self._ground.mirror.accept()

    async def _reconcile(self, key: Key) -> Requeue | None:
        ground = self._ground
        cluster = ground.clusters.store.get(key)
        if cluster is None or _word(cluster) == cluster.status.suspicion_answered:
            return None
        # Who has not read Slurm yet does not know what is hard to believe.
        if not isinstance(ground.mirror.state, Known) or not ground.may_write():
            return Requeue(after=SOON)
        at = {"uid": cluster.metadata.uid, "resourceVersion": cluster.metadata.resource_version}
        patch = Merge({"metadata": at, "status": {"suspicionAnswered": _word(cluster)}})
        await ground.clusters.patch(key, patch, status=True)
        if _word(cluster):
            self._answer(cluster)
        return None

    def _answer(self, cluster: SlurmCluster) -> None:
        regarding = about(cluster, kind=SLURMCLUSTER.name, api_version=SLURMCLUSTER.api_version)
        recorder, word = self._ground.recorder, _word(cluster)
        (accepted, what), self._accepted = self._accepted, ("", "")
        if word and word == accepted:
            recorder.tell(regarding, "SuspicionAccepted", f"believed from now on: {what}", action="Accept")
            return
        found = self._ground.mirror.suspicions
        there = f"{identity(found)} would: {words(found)}" if found else "nothing is hard to believe now"
        recorder.warn(regarding, "NothingAccepted", f'"{word}" accepts nothing; {there}', action="Accept")


def _word(cluster: SlurmCluster) -> str:
    """What a person has said, as far as the status has room for it: a longer one accepts nothing."""
    return cluster.metadata.annotations.get(names.ACCEPT_SUSPICION, "").strip()[:LONGEST_WORD]


def _unanswered(cluster: SlurmCluster | None) -> str:
    word = "" if cluster is None else _word(cluster)
    return "" if cluster is None or word == cluster.status.suspicion_answered else word
