"""What is published when: settings come, readers run, and after each change all of it is merged and written.

    settings file --> readers, one per directory --> contents --> merge --> files --> ConfigMaps

Nothing is published before every directory has been tried once, or for a while: the users of the second directory would be
there before those of the first, who may have the same names. A directory that is down has what it has published before.

What does not fit into a ConfigMap is not published: of the directory that takes most room, the users stay those of before.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Never

from msgspec import DecodeError, Struct, ValidationError, json, structs

from sunk.directory.domain.options import Options
from sunk.directory.domain.settings import Values
from sunk.directory.publish import Missing, Publisher
from sunk.directory.reader import SOON, Reader
from sunk.directory.users import files as written, merge as merging
from sunk.directory.users.files import Files
from sunk.directory.users.merge import Local, Merged, Source
from sunk.directory.users.records import Content
from sunk.kube.errors import KubeError
from sunk.kube.tasks import forever
from sunk.model import faults, loopclock
from sunk.model.backoff import BackOff
from sunk.model.cluster.directory import AgentSettings, Directory
from sunk.model.contract import people
from sunk.model.contract.people import DirectoryReport, PeopleReport

log = logging.getLogger(__name__)

LOOK: Final = 5.0
"""Seconds between two looks at the settings, which a kubelet changes."""
PATIENCE: Final = 30.0
"""Seconds that the first publication waits for a directory that hangs."""
_RETRIES: Final = BackOff(first=1.0, longest=60.0)
_WHERE: Final = "directory agent"


class Folders(Struct, frozen=True):
    """Where the operator's files are."""

    settings: Path = Path(people.SETTINGS_FOLDER)
    secrets: Path = Path(people.SECRETS_FOLDER)


class Agent:
    """Keeps the ConfigMaps true."""

    def __init__(self, publisher: Publisher, folders: Folders) -> None:
        self._publisher = publisher
        self._folders = folders
        self._text = ""
        """Of the settings that are in force."""
        self._seen = ""
        """Of those that were read last, which may be no good."""
        self._settings = AgentSettings()
        self._twice: dict[int, Directory] = {}
        """Directories whose name another one has, by their index."""
        self.readers: Final[dict[str, Reader]] = {}
        self._tasks: dict[str, asyncio.Task[Never]] = {}
        self._changed = asyncio.Event()
        self._began = 0.0
        """When there were settings for the first time."""
        self._adopted = 0.0
        """When there were these settings."""
        self._unread = ""
        """Why the settings cannot be read."""
        self._unpublished = "not begun yet"
        """Why nothing is published."""

    @property
    def trouble(self) -> str:
        """What keeps us from publishing what is wanted; empty if nothing does."""
        return self._unread or self._unpublished

    async def run(self) -> Never:
        self._began, failures = loopclock.now(), 0
        try:
            while True:
                self._changed.clear()
                try:
                    await self._round()
                    failures = 0
                    faults.over(_WHERE)
                except (KubeError, Missing) as error:
                    failures += 1
                    self._fail(str(error))
                except Exception as fault:  # noqa: BLE001 - survived, and said with its place
                    failures += 1
                    faults.note(_WHERE, fault)
                    self._unpublished = faults.words(fault)
                # After a failure, a change is no reason to hurry.
                await (asyncio.sleep(_RETRIES.jittered(failures)) if failures else self._until_due())
        finally:
            await self._stop(tuple(self._tasks))

    async def _until_due(self) -> None:
        """Until a reader has something new, the settings are others, or it is time to see whether all is still there."""
        interval, now = float(self._settings.service.refresh_interval), loopclock.now()
        suspect = any(reader.state == people.SUSPECT for reader in self.readers.values())
        due = now + rest(interval, patience=self._patience() if self._untried() else 0.0, suspect=suspect)
        while not self._changed.is_set() and loopclock.now() < due and self._read_settings() == self._seen:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(LOOK, max(due - loopclock.now(), 0.0))):
                    await self._changed.wait()

    def _fail(self, trouble: str) -> None:
        if trouble != self._unpublished:
            log.warning("nothing can be published: %s", trouble)
        self._unpublished = trouble

    def _doubt(self, trouble: str) -> None:
        if trouble and trouble != self._unread:
            log.warning("settings: %s", trouble)
        self._unread = trouble

    async def _round(self) -> None:
        # First of all, because a new reader has to know what its directory has published, to tell a loss from a beginning.
        await self._publisher.refresh()
        await self._look()
        if not self._text or self._is_early():
            return
        data = await self._publisher.users(self._settings.users or self._publisher.users_name)
        values = merging.local(data.get(people.PASSWD, ""), data.get(people.GROUP, ""))
        await self._publish(values)
        if self._unpublished:
            log.info("publishing")
        self._unpublished = ""

    # -- settings and readers

    def _read_settings(self) -> str:
        """The text of the settings; what we have, if it cannot be read."""
        try:
            text = (self._folders.settings / people.SETTINGS_FILE).read_text()
        except (OSError, UnicodeDecodeError) as error:
            self._doubt(f"the file cannot be read ({faults.words(error)})")
            return self._seen
        if text == self._text:
            self._doubt("")
        return text

    async def _look(self) -> None:
        """Adopt other settings. What cannot be read changes nothing: a reader that is stopped takes its users along."""
        text = self._seen = self._read_settings()
        if text == self._text:
            return
        try:
            settings = json.decode(text, type=AgentSettings)
        except (DecodeError, ValidationError) as error:
            self._doubt(f"this version of the agent does not understand them: {error}")
            return
        self._doubt("")
        await self._adopt(settings, text)

    async def _adopt(self, settings: AgentSettings, text: str) -> None:
        wanted: dict[str, Values] = {}
        self._twice = {}
        for index, directory in enumerate(settings.service.directories):
            if directory.enabled and directory.name in wanted:
                self._twice[index] = directory
            elif directory.enabled:
                wanted[directory.name] = Values(_with_level(directory, settings), index)
        interval = float(settings.service.refresh_interval)
        same = {name for name, values in wanted.items() if name in self.readers and self.readers[name].values == values}
        await self._stop([name for name in self.readers if name not in same])
        for name in [name for name in self.readers if name not in wanted]:
            del self.readers[name]
        for name, values in wanted.items():
            self._employ(name, values, interval=interval)
        self._adopted = loopclock.now()
        if not self._text:
            self._began = self._adopted
        log.info("settings: %s", ", ".join(wanted) or "no directories")
        self._settings, self._text = settings, text

    def _employ(self, name: str, values: Values, *, interval: float) -> None:
        reader = self.readers.get(name)
        if reader is None:
            before = written.read(self._publisher.people, self._publisher.logins)
            reader = Reader(
                values,
                folder=self._folders.secrets,
                interval=interval,
                changed=self._changed.set,
                content=before.get(name, Content()),
                consent=self._publisher.consent,
            )
            self.readers[name] = reader
        reader.interval = interval
        if name not in self._tasks:
            reader.adopt(values, interval=interval)
            self._tasks[name] = asyncio.create_task(
                forever(reader.run(), name=f"directory {name}"), name=f"directory {name}"
            )

    async def _stop(self, names: Sequence[str]) -> None:
        tasks = [self._tasks.pop(name) for name in names if name in self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def dead(self) -> str:
        """Which reader has come to an end, which none may; empty if all live."""
        return ", ".join(name for name, task in self._tasks.items() if task.done())

    # -- what to publish

    def _waiting(self) -> list[str]:
        return [name for name, reader in self.readers.items() if not reader.state]

    def _untried(self) -> bool:
        return not all(reader.is_current for reader in self.readers.values())

    def _patience(self) -> float:
        """How much longer to wait for reads with these settings."""
        return self._adopted + PATIENCE - loopclock.now()

    def _is_early(self) -> bool:
        waiting = self._waiting()
        if waiting and loopclock.now() - self._began < PATIENCE:
            self._unpublished = f"waiting for the first read of {', '.join(waiting)}"
            return True
        return False

    async def _publish(self, values: Local) -> None:
        published = self._publisher.people
        blamed = dict[str, str]()
        before: dict[str, Content] | None = None
        while True:
            merged = self._merge(values, before or {}, blamed)
            files = written.write(merged)
            size = files.too_large()
            if not size:
                break
            culprit = largest(merged, besides=blamed)
            if culprit is None:
                log.error("users and groups need %d bytes, and no ConfigMap holds them: nothing is changed", size)
                await self._publisher.publish(None, report=self._report(merged, None, blamed))
                return
            before = before or written.read(published, self._publisher.logins)
            blamed[culprit] = too_large(merged, culprit, size=size)
        await self._publisher.publish(files, report=self._report(merged, files, blamed))

    def _merge(self, values: Local, before: dict[str, Content], blamed: dict[str, str]) -> Merged:
        sources = [
            Source(
                name,
                before.get(name, Content()) if name in blamed else reader.content,
                reader.values.directory.sudo_groups,
            )
            for name, reader in self._in_order()
        ]
        return merging.merge(
            values,
            sources,
            sudo_groups=self._settings.service.sudo_groups,
            published=written.numbers(self._publisher.people),
            names=written.names(self._publisher.logins),
        )

    def _in_order(self) -> Iterator[tuple[str, Reader]]:
        return iter(sorted(self.readers.items(), key=lambda each: each[1].values.index))

    def _report(self, merged: Merged, files: Files | None, blamed: dict[str, str]) -> str:
        held = self._publisher.people
        previous = _decoded(held.get(people.REPORT, ""))
        keys = (people.PASSWD, people.GROUP, people.SHADOW)
        is_new = files is not None and any(files.people.get(key) != held.get(key) for key in keys)
        reports = {reader.values.index: directory_report(reader, merged, blamed) for _, reader in self._in_order()}
        reports |= {index: named_twice(index, directory) for index, directory in self._twice.items()}
        report = PeopleReport(
            settings=settings_tried(
                self._text, previous=previous.settings, readers=self.readers.values(), patience=self._patience()
            ),
            directories=tuple(reports[index] for index in sorted(reports)),
            written=datetime.now(UTC).replace(microsecond=0) if is_new else previous.written,
        )
        return json.encode(report).decode()


def rest(interval: float, *, patience: float, suspect: bool = False) -> float:
    """How long to wait for news. `patience` is how much longer the first reads may take; a read may hang for minutes after that.

    What is suspect a person may accept meanwhile, by an annotation that only a round sees.
    """
    usual = min(interval, SOON) if suspect else interval
    return min(usual, patience) if patience > 0 else usual


def settings_tried(text: str, *, previous: str, readers: Iterable[Reader], patience: float) -> str:
    """Which settings to report: others not before each directory has been tried with them, or there is no more patience."""
    tried = patience <= 0 or all(reader.is_current for reader in readers)
    return people.fingerprint(text) if tried else previous


def _with_level(directory: Directory, settings: AgentSettings) -> Directory:
    level = directory.debug_level
    return structs.replace(directory, debug_level=settings.service.debug_level) if level is None else directory


def _decoded(text: str) -> PeopleReport:
    try:
        return json.decode(text, type=PeopleReport) if text else PeopleReport()
    except (DecodeError, ValidationError):
        return PeopleReport()


def directory_report(reader: Reader, merged: Merged, blamed: dict[str, str]) -> DirectoryReport:
    tally = merged.tallies[reader.name]
    counts: dict[str, Any] = {
        "users": tally.users,
        "groups": tally.groups,
        "skipped": tally.skipped,
        "examples": tally.examples,
    }
    if reader.name in blamed:
        where = reader.values.blame("ldap_search_base", Options())
        return DirectoryReport(reader.name, people.INVALID, f"{where}: {blamed[reader.name]}", **counts)
    state = reader.state or people.UNREACHABLE
    message = reader.message or ("" if reader.state else _unheard(reader))
    return DirectoryReport(reader.name, state, message, **counts)


def _unheard(reader: Reader) -> str:
    return f"directoryService.directories[{reader.values.index}].ldapUri: the first read has not ended yet"


def named_twice(index: int, directory: Directory) -> DirectoryReport:
    words = f"directoryService.directories[{index}].name: another directory is called {directory.name}: rename one"
    return DirectoryReport(directory.name, people.INVALID, words)


def largest(merged: Merged, *, besides: dict[str, str]) -> str | None:
    """The directory whose users and groups take most room, roughly."""
    sizes: dict[str, int] = {}
    for name, user in merged.users:
        sizes[name] = sizes.get(name, 0) + 100 + sum(map(len, user.keys))
    for name, group in merged.groups:
        sizes[name] = sizes.get(name, 0) + 30 + sum(map(len, group.members)) + len(group.members)
    return max((name for name in sizes if name not in besides), key=lambda name: sizes[name], default=None)


def too_large(merged: Merged, name: str, *, size: int) -> str:
    users = merged.tallies[name].users
    fit = users * written.LIMIT // size
    return (
        f"{users:,} users and {merged.tallies[name].groups:,} groups are more than a ConfigMap holds, about {fit:,} of these "
        "users fit: narrow the search bases or add a filter; until then nobody of this directory is changed"
    )
