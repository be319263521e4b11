"""One leader at a time, by a Lease object that many compete for.

    lease = LeaderElection(client, Key("shop", "till"))
    async with lease.held() as term:     # waits until it is ours
        await reconcile_all(term)        # cancelled before anybody else can lead

The problem. Two processes that both believe to lead undo each other's work. No lock over a network can keep a paused
process from waking up and finishing the line it was in; what can be had is that it finds out before the next one, and
that what it had already sent does no harm. The latter is the business of preconditions on every destroying write.

The design. The block in `held` runs under a deadline that every renewal moves on (`sunk.kube.control.term`). Where renewals
stop coming, for whatever reason (no network, no server, a bug in here), nothing has to happen for the block to end.
The record is only ever written with the resourceVersion it was decided on: of two who try, one gets Conflict. A write
whose answer was lost is followed by a read before the next. A clean end gives the lease back, so that a successor
need not wait for it to run out.

Give it a client of its own. Neither the rate limit nor the pool of connections that the work uses may hold up a
renewal.

What was refused: comparing `renewTime` with our own wall clock (two machines have two of them); a callback
"you are leader now" (it has to be paired with one for the end, by hand and without a mistake); ending the process on
loss (that is for the caller to decide: `LeaseLost` says it).
"""

import asyncio
import logging
import os
import random
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct

from sunk.kube import core
from sunk.kube.api.client import Client
from sunk.kube.api.patch import Merge
from sunk.kube.control.term import LeaseLost, LeaseTerm, LeaseTiming, ObservedLease
from sunk.kube.core import LEASES
from sunk.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from sunk.kube.resource import Key
from sunk.model import loopclock

log = logging.getLogger(__name__)

USUAL: Final = LeaseTiming()


def identity() -> str:
    """Make a name that no other process has, nor this one after a restart; it begins with the Pod's."""
    return f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"


class LeaseStatistics(Struct, frozen=True):
    """`since` and `deadline` are times of the loop's clock, zero where we do not lead; the rest counts from the start."""

    leading: bool
    since: float
    deadline: float
    terms: int
    losses: int
    renewals: int
    failures: int


class LeaderElection:
    """Our part in the election of a leader, by one Lease object."""

    def __init__(self, client: Client, key: Key, *, name: str = "", timing: LeaseTiming = USUAL) -> None:
        self.key: Final = key
        self.name: Final = name or identity()
        self._client = client
        self._timing = timing
        self._observed = ObservedLease()
        self._held: core.Lease | None = None
        self._term: LeaseTerm | None = None
        self._since = 0.0
        self._terms = self._losses = self._renewals = self._failures = 0

    @asynccontextmanager
    async def held(self) -> AsyncIterator[LeaseTerm]:
        """Wait until we lead, and lead for the length of the block. Raises LeaseLost if the block had to be ended."""
        term = await self._campaign()
        log.info("lease %s: leading as %s", self.key, self.name)
        self._term, self._since, self._terms = term, loopclock.now(), self._terms + 1
        stop = asyncio.Event()
        renewing = asyncio.create_task(self._keep(term, stop), name=f"lease {self.key}: renew")
        try:
            async with term.bounded():
                yield term
        except LeaseLost as lost:
            self._losses += 1
            log.warning("lease %s: lost: %s", self.key, lost)
            raise
        finally:
            self._term = None
            stop.set()
            await self._finish(renewing)
            await self._release(term)

    async def lead(self, work: Callable[[LeaseTerm], Awaitable[None]]) -> None:
        """Do the work whenever we lead, again after each loss, until it comes to its own end."""
        while True:
            with suppress(LeaseLost):
                async with self.held() as term:
                    await work(term)
                return

    def statistics(self) -> LeaseStatistics:
        term = self._term
        return LeaseStatistics(
            leading=term is not None and term.holds(),
            since=self._since if term else 0.0,
            deadline=term.deadline if term else 0.0,
            terms=self._terms,
            losses=self._losses,
            renewals=self._renewals,
            failures=self._failures,
        )

    # Getting it

    async def _campaign(self) -> LeaseTerm:
        while True:
            wait = self._timing.interval
            try:
                async with asyncio.timeout(self._timing.patience):
                    record = await self._read()
                    wait = self._wait_for(record)
                    if wait <= 0:
                        term = LeaseTerm(self._timing, sent=loopclock.now())
                        await self._take(record)
                        if term.holds():
                            return term
            except (Conflict, AlreadyExists, NotFound) as beaten:
                log.info("lease %s: another replica acquired it first: %s", self.key, beaten)
                wait = self._timing.interval
            except (KubeError, TimeoutError) as trouble:
                self._failed("could not be read or taken", trouble)
                wait = self._timing.interval
            # At random, so that those who failed together do not all come back together.
            await asyncio.sleep(min(wait, self._timing.interval) * random.uniform(0.5, 1.0))  # noqa: S311 - no secret

    async def _read(self) -> core.Lease | None:
        try:
            return await self._client.get(LEASES, self.key.name, namespace=self.key.namespace)
        except NotFound:
            return None

    def _wait_for(self, record: core.Lease | None) -> float:
        if record is None or record.spec.holder_identity in {"", self.name}:
            return 0.0
        return self._observed.expires_in(record.metadata.resource_version, duration=record.spec.lease_duration_seconds)

    async def _take(self, record: core.Lease | None) -> None:
        spec = self._spec() | {"acquireTime": _stamp()}
        if record is None:
            body = {"metadata": {"name": self.key.name}, "spec": spec}
            self._held = await self._client.create(LEASES, body, namespace=self.key.namespace)
        else:
            await self._write(record, spec | {"leaseTransitions": record.spec.lease_transitions + 1})

    # Keeping it

    async def _keep(self, term: LeaseTerm, stop: asyncio.Event) -> None:
        while term.holds():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timing.interval * random.uniform(0.8, 1.0)):  # noqa: S311 - no secret
                    await stop.wait()
                    return
            try:
                async with asyncio.timeout(self._timing.patience):
                    await self._renew(term)
            except (KubeError, TimeoutError) as trouble:
                self._failed(f"not renewed, {max(term.deadline - loopclock.now(), 0):.1f} s left", trouble)

    async def _renew(self, term: LeaseTerm) -> None:
        if self._held is None:  # the last answer was lost: see what became of it
            self._held = await self._read()
        held = self._held
        if held is None or held.spec.holder_identity != self.name:
            term.lose(f"it is now held by {held.spec.holder_identity or 'no one'}" if held else "it was deleted")
            return
        sent = loopclock.now()
        try:
            await self._write(held, self._spec())
        except (Conflict, NotFound):  # somebody took it, deleted it, or only touched it: see which
            await self._renew(term)
            return
        term.renewed(sent=sent)
        self._renewals += 1

    async def _finish(self, renewing: asyncio.Task[None]) -> None:
        """Wait for a renewal in flight: one that arrives after the lease was given back would take it again."""
        _, late = await asyncio.wait((renewing,), timeout=self._timing.margin / 2)
        for task in late:
            task.cancel()
            await asyncio.wait((task,))
        if not renewing.cancelled() and (bug := renewing.exception()):
            log.error("lease %s: renewal stopped: internal error", self.key, exc_info=bug)

    async def _release(self, term: LeaseTerm) -> None:
        """Give it back, if it is still ours; otherwise it runs out by itself, or somebody has it already."""
        held, self._held = self._held, None
        if held is None or not term.holds():
            return
        with suppress(KubeError, TimeoutError):
            async with asyncio.timeout(self._timing.margin / 2):
                await self._write(held, {"holderIdentity": None, "renewTime": _stamp()})
                log.info("lease %s: released", self.key)

    # Writing it

    async def _write(self, record: core.Lease, spec: dict[str, Any]) -> None:
        patch = Merge({"metadata": {"resourceVersion": record.metadata.resource_version}, "spec": spec})
        self._held = None
        self._held = await self._client.patch(LEASES, self.key.name, patch, namespace=self.key.namespace)

    def _spec(self) -> dict[str, Any]:
        duration = round(self._timing.duration)
        return {"holderIdentity": self.name, "leaseDurationSeconds": duration, "renewTime": _stamp()}

    def _failed(self, what: str, trouble: Exception) -> None:
        self._failures += 1
        log.warning("lease %s: %s: %s", self.key, what, str(trouble) or "no answer in time")


def _stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
