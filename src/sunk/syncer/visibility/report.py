"""What the syncer has to say about the cluster as a whole, written where the SlurmCluster controller finds it.

Each part may be a source: a function that returns a Report with what this part knows and nothing else. Once a second
they are called and merged; the status of the SlurmCluster is written if it does not say that already.
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
from sunk.objects.slurmclusters import report
from sunk.syncer.context import Context

log = logging.getLogger(__name__)

ReportSource = Callable[[], Report]
MOST_STUCK: Final = 10
_PERIOD: Final = 1.0
_LONGEST: Final = 1000


class Reporter:
    """Keeps `status.syncer` true. It is the only writer of it."""

    name: Final = "report"

    def __init__(self, context: Context, sources: Iterable[ReportSource]) -> None:
        self._context = context
        self._sources = tuple(sources)
        self._key = Key(context.namespace, context.cluster)
        self._at_work = asyncio.Lock()

    @property
    def busy(self) -> bool:
        return self._at_work.locked()

    async def run(self) -> Never:
        await self._context.clusters.store.complete()
        while True:
            with faults.survived(self.name):
                await self._expected()
            await asyncio.sleep(_PERIOD)

    async def shut_down(self) -> None:
        await self._at_work.acquire()  # and keep it: nothing new is taken on

    async def _expected(self) -> None:
        try:
            await self._write()
        except KubeError as trouble:
            log.warning("cannot write the report on %s yet: %s", self._key, trouble)

    async def _write(self) -> None:
        cluster = self._context.clusters.store.get(self._key)
        wanted = merged([collect(source) for source in (*self._sources, lasting_faults)])
        if cluster is None or report(cluster) == wanted or not self._context.may_write():
            return
        patch = Merge({"metadata": {"uid": cluster.metadata.uid}, "status": {"syncer": report_patch(wanted)}})
        async with self._at_work:
            await self._context.clusters.patch(self._key, patch, status=True)


def report_patch(report: Report) -> dict[str, Any]:
    """A report as a merge patch writes it: what is no longer said has to be taken off by name."""
    cleared: dict[str, Any] = dict.fromkeys((field.encode_name for field in fields(Report)), None)
    cleared.update(to_builtins(report))
    return cleared


def collect(source: ReportSource) -> Report:
    """What a source says. A source that fails does not silence the others."""
    try:
        return source()
    except Exception as fault:  # noqa: BLE001 - as it says
        return Report(stuck=(f"a part of the syncer cannot report ({faults.words(fault)}): check the syncer's log",))


def lasting_faults() -> Report:
    """What failed in a way that nobody foresaw, and has not succeeded since."""
    stuck = (f"{where} fails ({fault}) and is retried: check the syncer's log" for where, fault in _lasting())
    return Report(stuck=tuple(stuck))


def _lasting() -> list[tuple[str, str]]:
    return sorted(faults.lasting.items())


def merged(reports: Sequence[Report]) -> Report:
    """Merge reports. What several say of one matter stands side by side, each once."""
    stuck = dict.fromkeys(sentence for report in reports for sentence in report.stuck)
    return Report(
        config=_first(report.config for report in reports),
        config_trouble=_joined(report.config_trouble for report in reports),
        version=_first(report.version for report in reports),
        unseen=_joined(report.unseen for report in reports),
        held=_joined(report.held for report in reports),
        delayed=_joined(report.delayed for report in reports),
        stuck=tuple(sorted(stuck)[:MOST_STUCK]),
    )


def _first(texts: Iterable[str]) -> str:
    return next(filter(None, texts), "")


def _joined(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, texts)))[:_LONGEST]
