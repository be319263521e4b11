"""Whether Slurm can be read, said where people look.

In the log when it is lost and back; in the report if what it says is odd, or if it has been lost for longer than a
restart of slurmctld takes; and at `/readyz`. The text is written once for each loss, not with every failed read.
"""

import logging
from datetime import UTC, datetime
from typing import Final

from sunk.kube.resource import Key
from sunk.model import loopclock
from sunk.model.contract.report import Report
from sunk.slurm.libslurm.library import HANGS
from sunk.slurm.mirror.confidence import State, Unknown
from sunk.syncer.context import Context
from sunk.syncer.visibility.acceptance import accept_command, describe

log = logging.getLogger(__name__)

UNSEEN_AFTER: Final = 3.0
"""Seconds for which Slurm may be lost before that is said."""


class Reachability:
    def __init__(self, context: Context) -> None:
        self._mirror = mirror = context.mirror
        self._cluster = Key(context.namespace, context.cluster)
        self._before: State | None = None
        self._seen = datetime.now(UTC)
        self._messages: dict[bool, str] = {}
        """What the report says of the present loss, by whether slurmctld hangs."""
        mirror.subscribe(self._on_read)

    def _on_read(self, state: State) -> None:
        before, self._before = self._before, state
        if isinstance(state, Unknown) and not isinstance(before, Unknown):
            log.warning("Slurm does not answer; no decisions until it does: %s", state.reason)
        elif isinstance(before, Unknown) and not isinstance(state, Unknown):
            log.info("Slurm answers again")
        if not isinstance(state, Unknown):
            self._seen = datetime.now(UTC)
            self._messages.clear()

    def report(self) -> Report:
        suspicions, unseen = self._mirror.suspicions, self.unseen()
        if not suspicions:
            return Report(unseen=unseen)
        held = f"Slurm: {describe(suspicions)}. To confirm: {accept_command(suspicions, cluster=self._cluster)}"
        return Report(unseen=unseen, held=held)

    def unseen(self) -> str:
        """Since when Slurm is lost, and how; empty while it is read, and for the first moments."""
        state = self._mirror.state
        if not isinstance(state, Unknown) or loopclock.now() - state.since < UNSEEN_AFTER:
            return ""
        return self._messages.setdefault(HANGS in state.reason, unseen_message(state.reason, since=self._seen))

    def unready(self) -> str:
        """Why this process is not ready; empty if it is."""
        return self.unseen() if self._mirror.statistics().counts.whole else "not read yet"


def unseen_message(reason: str, *, since: datetime) -> str:
    """Say that Slurm is lost, in a sentence that stays the same for as long as it is."""
    begin = f"the syncer has not been able to read Slurm since {since:%Y-%m-%d %H:%M:%S} UTC"
    if HANGS in reason:
        return f"{begin}: slurmctld answers only pings, so it hangs or is overloaded"
    return f"{begin}: {reason}"
