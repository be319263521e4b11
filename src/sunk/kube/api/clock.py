"""The API server's clock, as its answers tell it.

Two processes that agree on a moment by objects need one clock. The server has one that both hear of: every answer has a
`Date`. What is kept is its distance from the loop's clock, which nobody sets, so the time of our own machine may be
wrong or change without any harm. A few samples bring it to well below a second.
"""

import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from sunk.model import loopclock
from sunk.model.clocks import Offset

PAUSE: Final = 5.0
"""Seconds between two samples: an answer costs little to send, and reading its date not much less."""


class ServerClock:
    def __init__(self) -> None:
        self._offset = Offset()
        self._heard = float("-inf")

    def hear(self, date: str, *, sent: float, got: float) -> None:
        """Hear the `Date` of an answer, and when it was asked for and came, by the loop's clock."""
        if not date or got < self._heard + PAUSE:
            return
        try:
            told = int(parsedate_to_datetime(date).timestamp())
        except ValueError:
            return
        self._heard = got
        self._offset.hear(told, sent=sent, got=got)

    def now(self) -> datetime:
        """The server's time; our own before the server has answered."""
        return datetime.fromtimestamp(time.time() + (self.ahead or 0.0), UTC)

    @property
    def distance(self) -> float | None:
        """From the loop's clock to the server's; None before the first answer."""
        return self._offset.seconds

    @property
    def ahead(self) -> float | None:
        """By how many seconds the server's clock is ahead of this machine's; None before the first answer."""
        distance = self.distance
        return None if distance is None else loopclock.now() + distance - time.time()
