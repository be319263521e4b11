"""What the syncer has to say about the cluster as a whole, written where the SlurmCluster controller finds it.

Every part may have a voice: a function that gives a Report with what this part knows and nothing else. Once a second
they are asked and laid together; the status of the SlurmCluster is written if it does not say that already.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Never

from msgspec import to_builtins
from msgspec.structs import fields

from sunk.kube.api.patch import Merge
from sunk.kube.errors import KubeError
from sunk.kube.resource import Key
from sunk.model import faults
from sunk.model.contract.report import Report
from sunk.objects.clusters import report
from sunk.syncer.context import Ground

log = logging.getLogger(__name__)

Voice = Callable[[], Report]
MOST_STUCK: Final = 10
_PERIOD: Final = 1.0
_LONGEST: Final = 1000


class Reporter:
    """Keeps `status.syncer` true. It is the only writer of it."""

    name: Final = "report"

    def __init__(self, ground: Ground, voices: Iterable[Voice]) -> None:
        self._ground = ground
        self._voices = tuple(voices)
        self._key = Key(ground.namespace, ground.cluster)
        self._at_work = asyncio.Lock()

    @property
    def busy(self) -> bool:
        return self._at_work.locked()

    async def run(self) -> Never:
        await self._ground.clusters.store.complete()
        while True:
            with faults.survived(self.name):
                await self._expected()
            await asyncio.sleep(_PERIOD)

    async def shut_down(self) -> None:
        await self._at_work.acquire()  # and keep it: nothing new is taken on

    async def _expected(self) -> None:
        try:
            await self._look()
        except KubeError as trouble:
            log.warning("the report on %s is put off: %s", self._key, trouble)

    async def _look(self) -> None:
        found = self._ground.clusters.store.get(self._key)
        wanted = gathered([heard(voice) for voice in (*self._voices, broken)])
        if found is None or report(found) == wanted or not self._ground.may_write():
            return
        patch = Merge({"metadata": {"uid": found.metadata.uid}, "status": {"syncer": told(wanted)}})
        async with self._at_work:
            await self._ground.clusters.patch(self._key, patch, status=True)


def told(report: Report) -> dict[str, Any]:
    """A report as a merge patch writes it: what is no longer said has to be taken off by name."""
    cleared: dict[str, Any] = dict.fromkeys((one.encode_name for one in fields(Report)), None)
    cleared.update(to_builtins(report))
    return cleared


def heard(voice: Voice) -> Report:
    """What a voice says. One that fails keeps no other from being heard."""
    try:
        return voice()
    except Exception as fault:  # noqa: BLE001 - as it says
        return Report(stuck=(f"a part of the syncer cannot report ({faults.words(fault)}): look at its log",))


def broken() -> Report:
    """What failed in a way that nobody foresaw, and has not succeeded since."""
    told = (f"{where} fails ({fault}) and is tried again: look at the syncer's log" for where, fault in _lasting())
    return Report(stuck=tuple(told))


def _lasting() -> list[tuple[str, str]]:
    return sorted(faults.lasting.items())


def gathered(reports: Sequence[Report]) -> Report:
    """Lay reports together. What several say of one matter stands side by side, each once."""
    stuck = dict.fromkeys(each for one in reports for each in one.stuck)
    return Report(
        config=_first(one.config for one in reports),
        config_trouble=_together(one.config_trouble for one in reports),
        version=_first(one.version for one in reports),
        unseen=_together(one.unseen for one in reports),
        held=_together(one.held for one in reports),
        delayed=_together(one.delayed for one in reports),
        stuck=tuple(sorted(stuck)[:MOST_STUCK]),
    )


def _first(texts: Iterable[str]) -> str:
    return next(filter(None, texts), "")


def _together(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, texts)))[:_LONGEST]
