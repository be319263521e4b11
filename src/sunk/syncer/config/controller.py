"""See to it that slurmctld runs with the configuration that is wanted.

What is wanted lies in a ConfigMap and has a mark; what slurmctld runs with has one too, and only slurmctld can tell it.
While they differ it is told to read its files again. The kubelet brings those files in its own time, a minute or more
after the ConfigMap has them, and nobody says when. So it is told again, less and less often, until its mark is there.

A change seldom comes alone, and a reconfigure makes slurmctld and every slurmd start themselves over: so it waits until
there was no new request for a moment, though not for ever. Whoever changed features, which Slurm considers for partitions
only at a reconfigure, calls `want_reconfigure`; if no partition is made of them nothing has to be done, and else it is
done at most once in `DISTANCE` seconds. That request would be lost with us; so a new leader checks once whether
partitions lag behind.

slurmctld may take longer for it than anybody waits for an answer. Then it is not known whether it does it, and to tell it
again would make it begin again, for ever. Its boot time tells: a later one means that the files have been read since.
"""

import asyncio
import logging
import math
from collections.abc import Collection
from contextlib import ExitStack, suppress
from typing import Final, Never

from msgspec import Struct
from msgspec.structs import replace

from sunk.kube.resource import Key
from sunk.model import loopclock
from sunk.model.backoff import BackOff
from sunk.model.contract import clusterobjects, confighash
from sunk.model.contract.report import Report
from sunk.model.faults import survived
from sunk.slurm import records
from sunk.slurm.errors import SlurmError
from sunk.slurm.mirror.confidence import Known, State
from sunk.syncer.config.partitions import outdated, partition_features
from sunk.syncer.context import Context

log = logging.getLogger(__name__)

QUIET: Final = 2.0
"""Seconds without a further request, after which a reconfigure is sent."""
LONGEST: Final = 10.0
"""Seconds after the first request, however many follow."""
BACK_OFF: Final = BackOff(first=2.0, longest=60.0)
DISTANCE: Final = 30.0
"""Seconds between two reconfigures that are for features only."""
UNANSWERED: Final = 60.0
"""Seconds after a request without an answer, before it is sent again to a slurmctld that has not started since."""
_SHORTEST_WAIT: Final = 0.5
RESYNC: Final = 30.0
"""Seconds after which slurmctld is asked again, though nothing happened."""


class ReconfigureNeed(Struct, frozen=True):
    """Whether slurmctld has to read its files again. Times are the loop's."""

    first: float = math.inf
    """When this was first requested; never, if it is infinite."""
    last: float = math.inf
    tries: int = 0
    tried: float = -math.inf
    unanswered: bool = False
    """The last try had no answer, and slurmctld is not known to have started since."""

    def requested(self, *, now: float) -> "ReconfigureNeed":
        return replace(self, first=min(self.first, now), last=now, tries=0)

    def after_a_try(self, *, now: float) -> "ReconfigureNeed":
        return replace(self, tries=self.tries + 1, tried=now)

    def answered(self, *, yes: bool) -> "ReconfigureNeed":
        return replace(self, unanswered=not yes)

    @property
    def holds(self) -> bool:
        return self.first < math.inf

    @property
    def due(self) -> float:
        """When it is to be told; infinite if there is no need."""
        calm = min(self.last + QUIET, self.first + LONGEST)
        if self.unanswered:
            return max(calm, self.tried + UNANSWERED)
        return max(calm, self.tried + BACK_OFF.delay(self.tries)) if self.tries else calm


NONE: Final = ReconfigureNeed()


class ConfigController:
    """Sends every reconfigure; nobody else does."""

    name: Final = "config"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._changed = asyncio.Event()
        self._need = NONE
        self._runs: records.Configuration | None = None
        self._asked = -math.inf
        self._restarts = -1
        self._wanted = ""
        self._owed = False
        """Slurm has to read its files though they have not changed, for partitions to follow features."""
        self._owed_since_boot: int | None = None
        """The boot time that slurmctld had after that came up; None until it was asked."""
        self._last_sent = -math.inf
        self._boot = 0
        self._begun = False
        self._trouble = ""
        self._at_work = asyncio.Lock()

    @property
    def busy(self) -> bool:
        return self._at_work.locked()

    @property
    def runs(self) -> records.Configuration | None:
        """What slurmctld said last that it runs with."""
        return self._runs

    def unkillable(self) -> float:
        """UnkillableStepTimeout: after how many seconds Slurm gives up on a step; 0 if it is not known yet."""
        return float(self._runs.unkillable_step_timeout) if self._runs else 0.0

    def want_reconfigure(self, features: Collection[str] | None = None) -> None:
        """Ask for a reconfigure soon, though no file has changed: because of these features, if any are named."""
        named = None if features is None else partition_features(self._conf())
        if named is not None and named.isdisjoint(features or ()):
            return
        self._owed, self._owed_since_boot, self._asked = True, None, -math.inf
        self._need = self._need.requested(now=loopclock.now())
        self._changed.set()

    def report(self) -> Report:
        if self._runs is None:
            return Report()
        return Report(
            config=self._runs.parameter(confighash.PARAMETER), config_trouble=self._trouble, version=self._runs.version
        )

    async def run(self) -> Never:
        await self._context.files.store.complete()
        self._need, self._asked = self._need.requested(now=loopclock.now()) if self._owed else NONE, -math.inf
        self._begun = False
        with ExitStack() as subscriptions:
            subscriptions.callback(self._context.files.store.subscribe(lambda *_: self._changed.set()))
            subscriptions.callback(self._context.mirror.subscribe(self._on_read))
            while True:
                self._changed.clear()
                with survived(self.name):
                    await self._reconcile()
                await self._wait()

    async def shut_down(self) -> None:
        await self._at_work.acquire()  # and keep it: nothing new is taken on

    def _on_read(self, state: State) -> None:
        """A slurmctld that was restarted may have read anything."""
        restarts = self._context.mirror.statistics().counts.restarts
        if isinstance(state, Known) and restarts != self._restarts:
            self._restarts, self._asked = restarts, -math.inf
            self._changed.set()

    @property
    def _due(self) -> float:
        """When slurmctld is to be told. Files that people changed do not wait for a distance."""
        due, lags = (
            self._need.due,
            self._runs is not None and self._wanted != self._runs.parameter(confighash.PARAMETER),
        )
        return due if lags and self._wanted else max(due, self._last_sent + DISTANCE)

    async def _wait(self) -> None:
        until = min(self._due, self._asked + RESYNC, loopclock.now() + RESYNC)
        with suppress(TimeoutError):
            # Also where it is due and cannot be done: Slurm is away, or we have just lost the lease.
            async with asyncio.timeout(max(until - loopclock.now(), _SHORTEST_WAIT)):
                await self._changed.wait()

    async def _reconcile(self) -> None:
        if not isinstance(self._context.mirror.state, Known):
            return
        self._begin()
        try:
            await self._compare()
            if loopclock.now() >= self._due and self._context.may_write():
                await self._reconfigure()
        except SlurmError as error:
            self._trouble = str(error)
            log.warning("cannot read or update slurmctld's configuration: %s", error)

    def _begin(self) -> None:
        """Take up what an earlier leader may have left: once, since a second time would help no more than the first."""
        if self._begun:
            return
        self._begun, mirror = True, self._context.mirror
        if late := outdated(self._conf(), nodes=mirror.nodes.all(), partitions=mirror.partitions.all()):
            log.info("partitions %s are missing nodes with matching features; reconfiguring", ", ".join(late))
            self.want_reconfigure()

    async def _compare(self) -> None:
        """See what is wanted and what is in force, and whether that is a need."""
        if loopclock.now() >= self._asked + RESYNC or self._runs is None:
            self._runs = await self._context.library.configuration()
            self._asked = loopclock.now()
            self._note_boot(self._runs.boot_time)
        wanted = confighash.read(self._conf())
        if wanted and wanted != self._runs.parameter(confighash.PARAMETER):
            if wanted != self._wanted or not self._need.holds:
                self._need = self._need.requested(now=loopclock.now())
        elif not self._owed:
            self._need, self._trouble = NONE, ""
        self._wanted = wanted

    def _note_boot(self, boot: int) -> None:
        """A slurmctld that started since has read its files, whether it was told to or not."""
        if boot > self._boot:
            self._boot, self._need = boot, self._need.answered(yes=True)
        if self._owed and self._owed_since_boot is None:
            self._owed_since_boot = boot
        elif self._owed and self._owed_since_boot is not None and boot > self._owed_since_boot:
            self._owed = False

    def _conf(self) -> str:
        config_map = self._context.files.store.get(
            Key(self._context.namespace, f"{self._context.cluster}-{clusterobjects.SLURM_CONF}")
        )
        return config_map.data.get(confighash.FILE, "") if config_map is not None else ""

    async def _reconfigure(self) -> None:
        async with self._at_work:
            self._need, self._last_sent = (
                self._need.after_a_try(now=loopclock.now()).answered(yes=False),
                loopclock.now(),
            )
            log.info("reconfiguring slurmctld; wanted configuration: %s", self._wanted or "the current one")
            try:
                await self._context.orders.reconfigure()
            finally:
                self._asked = -math.inf
            self._owed, self._need = False, self._need.answered(yes=True)
            await self._compare()
            if self._need.holds:
                self._trouble = (
                    f"slurmctld was reconfigured but has not loaded {self._wanted} yet: "
                    "its mounted files may be out of date"
                )
