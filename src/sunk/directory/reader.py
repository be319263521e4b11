"""One directory, read again and again for as long as it is in the settings, and what is known of it.

Each directory has a reader of its own, so that one that hangs holds up nobody. A read that takes long is followed by a longer
pause: a directory spends at most a twentieth of its time on us.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, Never

from sunk.directory import reading
from sunk.directory.domain.options import Options
from sunk.directory.domain.settings import Values, resolve
from sunk.directory.failure import Failure
from sunk.directory.users.records import Content
from sunk.model import faults, loopclock
from sunk.model.contract import people

log = logging.getLogger(__name__)

SHARE: Final = 20.0
"""The pause after a read is at least this many times as long as the read."""
LONGEST_RETRY: Final = 300.0
_RETRY_SHARE: Final = 3.0
_SHOWN: Final = 600


class Reader:
    """What is known of a directory. `content` stays what it was when a read fails."""

    def __init__(
        self, values: Values, *, folder: Path, interval: float, changed: Callable[[], None], content: Content
    ) -> None:
        self.values = values
        self.interval = interval
        self._folder = folder
        self._changed = changed
        self.content = content
        """Until the first good read: what is published of it."""
        self.state = ""
        """Empty until the first read has ended."""
        self.message = ""
        self.is_current = False
        """Whether a read has ended with the values of now."""
        self.good_at: float | None = None
        self.seconds = 0.0
        """How long the last read took."""
        self.reads: Final[Counter[str]] = Counter()
        """By the state in which they ended."""

    @property
    def name(self) -> str:
        return self.values.directory.name

    def adopt(self, values: Values, *, interval: float) -> None:
        """Go by other values from the next read on. It is the same directory: whom it has given stays until it gives others."""
        self.values, self.interval, self.is_current = values, interval, False

    async def run(self) -> Never:
        while True:
            began = loopclock.now()
            await self.once()
            self.seconds = loopclock.now() - began
            await asyncio.sleep(pause(self.seconds, good=self.state == people.AVAILABLE, interval=self.interval))

    async def once(self) -> None:
        """Read it, whatever happens."""
        options = Options()
        try:
            content = await self._read(options)
        except Failure as failure:
            where = self.values.blame(failure.option, options)
            self._end(failure.state, f"{where}: {failure.words}"[:_SHOWN])
        except Exception as fault:  # noqa: BLE001 - one directory must not end the others
            faults.note(f"directory {self.name}", fault)
            where = self.values.blame("ldap_uri", options)
            self._end(people.UNREACHABLE, f"{where}: unexpected error of the directory agent, see its log")
        else:
            faults.over(f"directory {self.name}")
            self._accept(content, options)

    async def _read(self, options: Options) -> Content:
        domain = resolve(self.values, folder=self._folder / self.name, options=options)
        content = await reading.read(domain)
        reading.believe(content, before=self.content, canary=domain.canary)
        return content

    def _accept(self, content: Content, options: Options) -> None:
        is_new = content != self.content
        self.content, self.good_at = content, loopclock.now()
        message = ""
        if not content.users:
            where = self.values.blame("ldap_search_base", options)
            message = (
                f"{where}: no user was found; check the search base, userObjectClass and the rights of the account"
            )
        self._end(people.AVAILABLE, message, is_new=is_new)

    def _end(self, state: str, message: str, *, is_new: bool = False) -> None:
        self.reads[state] += 1
        was_current, self.is_current = self.is_current, True
        if (state, message) != (self.state, self.message):
            level = logging.INFO if state == people.AVAILABLE else logging.WARNING
            log.log(level, "directory %s: %s%s", self.name, state, f": {message}" if message else "")
        elif was_current and not is_new:
            return
        self.state, self.message = state, message
        self._changed()


def pause(seconds: float, *, good: bool, interval: float) -> float:
    """How long to wait after a read of so many seconds. One that failed is repeated sooner, but not by storm."""
    if good:
        return max(interval, SHARE * seconds)
    return max(interval, min(_RETRY_SHARE * seconds, LONGEST_RETRY))
