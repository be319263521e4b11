"""How far the clocks of slurmctld, of the API server and of this machine are apart, measured all the time.

Times of one side are compared with times of another: a verification with the drain that it lifts, the end of a job with
our own clock. Nothing of it goes by a second, and `skew` says how far they may differ. Beyond that what is decided on
them is wrong, and only a person can set a clock. So the report says so.
"""

from typing import Final

from msgspec import Struct

from sunk.model import loopclock
from sunk.model.clocks import Offset
from sunk.model.contract.report import Report
from sunk.slurm.mirror.confidence import Known, State
from sunk.syncer.context import Context

_UNSURE: Final = 1.0
"""Seconds by which what is measured may be wrong: both sides tell whole ones."""
_NOTICEABLE: Final = 0.2
"""A text is written to the API server, so it follows the difference only in steps of this share."""


class ClockOffsets(Struct, frozen=True):
    """By how many seconds others are ahead of this machine; None where nobody has answered yet."""

    server: float | None = None
    slurm: float | None = None


def wrong_clock(offsets: ClockOffsets, *, allowed: float) -> tuple[str, float] | None:
    """Whose clock is wrong, and by how much; None if all are near enough to each other."""
    if offsets.server is None:
        return None
    if offsets.slurm is not None and abs(offsets.slurm - offsets.server) > allowed + _UNSURE:
        return "slurmctld's clock", offsets.slurm - offsets.server
    if abs(offsets.server) > allowed + _UNSURE:
        return "the clock of the syncer's Node", -offsets.server
    return None


class Clocks:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._slurm = Offset()
        self._reported: tuple[str, float] | None = None
        context.mirror.subscribe(self._on_read)

    def offsets(self) -> ClockOffsets:
        """What is known now."""
        server, distance = self._context.client.clock.ahead, self._slurm.seconds
        # Both were measured against the loop's clock, so what this machine takes for the time drops out.
        offset = self._context.client.clock.distance
        slurm = None if distance is None or offset is None or server is None else distance - offset + server
        return ClockOffsets(server, slurm)

    def report(self) -> Report:
        wrong = wrong_clock(self.offsets(), allowed=self._context.settings.clock_skew)
        if wrong is None or self._reported is None or _is_new(wrong, self._reported):
            self._reported = wrong
        if self._reported is None:
            return Report()
        whose, seconds = self._reported
        ahead = "ahead of" if seconds > 0 else "behind"
        words = (
            f"{whose} is {abs(seconds):.0f} s {ahead} the API server's, but only {self._context.settings.clock_skew:g} s are allowed: "
            "correct it, or SUNK misjudges the order of events in Slurm and Kubernetes"
        )
        return Report(stuck=(words,))

    def _on_read(self, state: State) -> None:
        """After a read: slurmctld told its time somewhere between the read's begin and now."""
        if isinstance(state, Known) and self._context.mirror.clock:
            now = loopclock.now()
            self._slurm.hear(self._context.mirror.clock, sent=now - self._context.mirror.age, got=now)


def _is_new(wrong: tuple[str, float], reported: tuple[str, float]) -> bool:
    return wrong[0] != reported[0] or abs(wrong[1] - reported[1]) > max(_NOTICEABLE * abs(reported[1]), 2 * _UNSURE)
