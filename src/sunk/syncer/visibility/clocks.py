"""How far the clocks of slurmctld, of the API server and of this machine are apart, measured all the time.

Times of one side are compared with times of another: a verification with the drain that it lifts, the end of a job with
our own clock. Nothing of it goes by a second, and `skew` says how far they may differ. Beyond that what is decided on
them is wrong, and only a person can set a clock. So it is said.
"""

import asyncio
from typing import Final

from msgspec import Struct

from sunk.model.clocks import Offset
from sunk.model.contract.report import Report
from sunk.slurm.mirror.confidence import Known, State
from sunk.syncer.context import Ground

_UNSURE: Final = 1.0
"""Seconds by which what is measured may be wrong: both sides tell whole ones."""
_NOTICEABLE: Final = 0.2
"""A text is written to the API server, so it follows the difference only in steps of this share."""


class Apart(Struct, frozen=True):
    """By how many seconds others are ahead of this machine; None where nobody has answered yet."""

    server: float | None = None
    slurm: float | None = None


def complaint(found: Apart, *, allowed: float) -> tuple[str, float] | None:
    """Whose clock is wrong, and by how much; None if all are near enough to each other."""
    if found.server is None:
        return None
    if found.slurm is not None and abs(found.slurm - found.server) > allowed + _UNSURE:
        return "slurmctld's clock", found.slurm - found.server
    if abs(found.server) > allowed + _UNSURE:
        return "the clock of the syncer's machine", -found.server
    return None


class Clocks:
    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._slurm = Offset()
        self._said: tuple[str, float] | None = None
        ground.mirror.subscribe(self._read)

    def apart(self) -> Apart:
        """What is known now."""
        server, distance = self._ground.client.clock.ahead, self._slurm.seconds
        # Both were measured against the loop's clock, so what this machine takes for the time drops out.
        offset = self._ground.client.clock.distance
        slurm = None if distance is None or offset is None or server is None else distance - offset + server
        return Apart(server, slurm)

    def report(self) -> Report:
        found = complaint(self.apart(), allowed=self._ground.manner.skew)
        if found is None or self._said is None or _is_another(found, self._said):
            self._said = found
        if self._said is None:
            return Report()
        whose, seconds = self._said
        ahead = "ahead of" if seconds > 0 else "behind"
        words = (
            f"{whose} is {abs(seconds):.0f} s {ahead} the API server's, and {self._ground.manner.skew:g} s are allowed: "
            "set it, or what came first in Slurm and in Kubernetes is told wrongly"
        )
        return Report(stuck=(words,))

    def _read(self, state: State) -> None:
        """Hear of a read: slurmctld told its time somewhere between the read's begin and now."""
        if isinstance(state, Known) and self._ground.mirror.clock:
            now = asyncio.get_running_loop().time()
            self._slurm.hear(self._ground.mirror.clock, sent=now - self._ground.mirror.age, got=now)


def _is_another(found: tuple[str, float], said: tuple[str, float]) -> bool:
    return found[0] != said[0] or abs(found[1] - said[1]) > max(_NOTICEABLE * abs(said[1]), 2 * _UNSURE)
