"""How well Slurm can be seen, said where people look: in the log when it is lost and back, in the report if it is odd."""

import logging

from sunk.kube.resource import Key
from sunk.model.report import Report
from sunk.slurm.belief import State, Unknown
from sunk.syncer.accepting import request, words
from sunk.syncer.ground import Ground

log = logging.getLogger(__name__)


class Sight:
    def __init__(self, ground: Ground) -> None:
        self._mirror = mirror = ground.mirror
        self._cluster = Key(ground.namespace, ground.cluster)
        self._before: State | None = None
        mirror.subscribe(self._hear)

    def _hear(self, state: State) -> None:
        before, self._before = self._before, state
        if isinstance(state, Unknown) and not isinstance(before, Unknown):
            log.warning("Slurm does not answer; nothing is decided until it does: %s", state.reason)
        elif isinstance(before, Unknown) and not isinstance(state, Unknown):
            log.info("Slurm answers again")

    def report(self) -> Report:
        found = self._mirror.suspicions
        if not found:
            return Report()
        return Report(held=f"Slurm: {words(found)}. If that is meant: {request(found, cluster=self._cluster)}")

    def trouble(self) -> str:
        """What keeps us from being of use. Slurm that is away later does not: what was read is there, and it comes back."""
        return "" if self._mirror.statistics().counts.whole else "not read yet"
