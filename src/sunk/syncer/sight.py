"""How well Slurm can be seen, said where people look: in the log when it is lost and back, in the report if it is odd."""

import logging

from sunk.model.report import Report
from sunk.slurm.belief import State, Unknown
from sunk.slurm.mirror import Mirror

log = logging.getLogger(__name__)


class Sight:
    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._before: State | None = None
        mirror.subscribe(self._hear)

    def _hear(self, state: State) -> None:
        before, self._before = self._before, state
        if isinstance(state, Unknown) and not isinstance(before, Unknown):
            log.warning("Slurm does not answer; nothing is decided until it does: %s", state.reason)
        elif isinstance(before, Unknown) and not isinstance(state, Unknown):
            log.info("Slurm answers again")

    def report(self) -> Report:
        return Report(held="; ".join(f"Slurm: {each.reason}" for each in self._mirror.suspicions))

    def trouble(self) -> str:
        """What keeps us from being of use. Slurm that is away later does not: what was read is there, and it comes back."""
        return "" if self._mirror.statistics().counts.whole else "not read yet"
