"""One directory, read again and again for as long as it is in the settings, and what is known of it.

Each directory has a reader of its own, so that one that hangs holds up nobody. A read that takes long is followed by a longer
pause: a directory spends at most a twentieth of its time on us. However seldom a directory is to be read, one that failed is
tried again soon, and so is one whose Secrets have changed: people wait for that.
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
from sunk.directory.users.records import Consent, Content
from sunk.model import faults, loopclock
from sunk.model.contract import people

log = logging.getLogger(__name__)

SHARE: Final = 20.0
"""The pause after a read is at least this many times as long as the read."""
SOON: Final = 60.0
"""Seconds after which a read is repeated that failed, or went by other Secrets than there are now."""
LONGEST_RETRY: Final = 300.0
"""Seconds. A read of a directory that hangs takes minutes, and it should be known soon that it is back."""
LOOK: Final = 5.0
"""Seconds between two looks at the Secrets, which a kubelet changes."""
_SHOWN: Final = 600
Files = tuple[tuple[str, int, int], ...]


class Reader:
    """What is known of a directory. `content` stays what it was when a read fails."""

    def __init__(  # noqa: PLR0913 - all that it depends on
        self,
        values: Values,
        *,
        folder: Path,
        interval: float,
        changed: Callable[[], None],
        content: Content,
        consent: Callable[[], Consent] = Consent,
    ) -> None:
        self.values = values
        self.interval = interval
        self._folder = folder
        self._changed = changed
        self._consent = consent
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
            began, secrets = loopclock.now(), self._secrets()
            await self.once()
            self.seconds = loopclock.now() - began
            await self._pause(secrets)

    async def _pause(self, secrets: Files) -> None:
        """Until the next read. `secrets` are those by which the last one went."""
        ended, good = loopclock.now(), self.state == people.AVAILABLE
        while True:
            wanted = pause(self.seconds, good=good, changed=self._secrets() != secrets, interval=self.interval)
            left = ended + wanted - loopclock.now()
            if left <= 0:
                return
            await asyncio.sleep(min(left, LOOK))

    def _secrets(self) -> Files:
        """What tells the files of the directory's Secrets from others. A kubelet makes new ones whenever it changes any."""
        try:
            found = [(str(file), file.stat()) for file in sorted((self._folder / self.name).rglob("*"))]
        except OSError:  # it is changing them right now
            return ()
        return tuple((name, stat.st_ino, stat.st_mtime_ns) for name, stat in found)

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
        reading.believe(content, before=self.content, canary=domain.canary, consent=self._consent())
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


def pause(seconds: float, *, good: bool, changed: bool, interval: float) -> float:
    """How long to wait after a read of so many seconds. One that failed is repeated sooner, but not by storm."""
    if good:
        return max(min(interval, SOON) if changed else interval, SHARE * seconds)
    return max(min(interval, SOON), min(SHARE * seconds, LONGEST_RETRY))
