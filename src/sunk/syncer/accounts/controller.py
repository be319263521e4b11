"""Keep the accounts of users as the rules say: when users, groups or rules change, and every few minutes.

Nothing else in the syncer waits for it. slurmdbd is asked on a thread of its own, and may take its time. While it does not
answer, or slurmctld cannot be read, nothing is done; what fails is tried again, less and less often, and said in the report
if it lasts. Without rules, or without accounting, slurmdbd is never asked anything.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from typing import Any, Final, Never

from msgspec import Struct

from sunk.kube.api.client import Client, Scope
from sunk.kube.api.patch import Merge
from sunk.kube.cache.collection import Collection
from sunk.kube.control.events import about
from sunk.kube.core import CONFIG_MAPS, ConfigMap
from sunk.kube.errors import KubeError
from sunk.kube.resource import Key
from sunk.model import loopclock, names
from sunk.model.backoff import BackOff
from sunk.model.cluster.daemons import AccountRule
from sunk.model.cluster.kind import SLURMCLUSTER
from sunk.model.contract import clusterobjects, people
from sunk.model.contract.report import Report
from sunk.model.faults import survived
from sunk.model.loss import accepted_loss
from sunk.objects.slurmclusters import SlurmCluster
from sunk.slurm.errors import SlurmError
from sunk.slurm.mirror.accounting import SLURMDBD
from sunk.slurm.mirror.confidence import Known, Stale
from sunk.slurm.orders.accounts import AccountOrders, Accounts
from sunk.syncer.accounts import memory, source
from sunk.syncer.accounts.arrivals import Arrivals, Strangers, unknown
from sunk.syncer.accounts.executor import Executor, NotLeading
from sunk.syncer.accounts.plan import Found, Pair, Plan, plan
from sunk.syncer.accounts.source import USER_MAPS, People, UserMap
from sunk.syncer.context import Context

log = logging.getLogger(__name__)

RESYNC: Final = 300.0
"""Seconds after which slurmdbd is read again, though nothing has changed here."""
GATHER: Final = 1.0
"""Seconds to wait for further changes after one."""
SOON: Final = 5.0
"""Seconds after which it is tried again where something is not there yet."""
RECHECK: Final = 20.0
"""Seconds after which slurmctld is asked again whom it knows."""
BACK_OFF: Final = BackOff(first=SOON, longest=RESYNC)
NOTE: Final = 2.0
"""Seconds after which slurmdbd is read again when something was added, to note what is there."""
REFUSED: Final = 60.0
"""Seconds after which it is tried again what slurmdbd has refused."""
LASTS: Final = 120.0
"""Seconds for which slurmdbd may fail before it is reported: a start takes its time."""
HANGS: Final = 300.0
"""Seconds without an answer before that is reported. Orders for many users may take minutes."""
SHUT_DOWN: Final = 5.0
"""Seconds to wait for slurmdbd at the end. What was not committed is undone."""
_HANGING: Final = (
    f"accounting.userAccounts: slurmdbd has not answered for {HANGS / 60:.0f} minutes: check its log and its database"
)
_SHOWN: Final = 3


class AccountSources(Struct, frozen=True):
    """What is followed for this alone. Each collection holds one object, if it exists."""

    directory: Collection[UserMap]
    users: Collection[UserMap]
    memory: Collection[ConfigMap]

    @classmethod
    def of(cls, client: Client, *, namespace: str, cluster: str, users: str = "") -> "AccountSources":
        """`users` is the ConfigMap with the users of the values; the operator's, if it is not named."""

        def only(suffix: str, name: str = "") -> Scope:
            return Scope(namespace=namespace, fields=f"metadata.name={name or clusterobjects.named(cluster, suffix)}")

        return cls(
            directory=Collection(client, USER_MAPS, only(people.AGENT)),
            users=Collection(client, USER_MAPS, only(people.USERS, users)),
            memory=Collection(client, CONFIG_MAPS, only(clusterobjects.USER_ACCOUNTS)),
        )

    @property
    def all(self) -> tuple[Collection[Any], ...]:
        return self.directory, self.users, self.memory


class AccountSettings(Struct, frozen=True):
    """What the SlurmCluster says about it."""

    rules: tuple[AccountRule, ...]
    directories: tuple[str, ...]
    """Those that are enabled, by name."""


class AccountStatistics(Struct):
    rounds: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    refused: int = 0
    reconfigures: int = 0
    last: Plan = Plan()
    unknown: int = 0


def settings(cluster: SlurmCluster | None) -> AccountSettings | None:
    """None if there is nothing to do."""
    if cluster is None or not cluster.spec.accounting.enabled:
        return None
    rules = cluster.spec.accounting.user_accounts.rules
    directories = tuple(each.name for each in cluster.spec.directory_service.directories if each.enabled)
    return AccountSettings(rules=rules, directories=directories) if rules else None


class AccountController:
    """Writes associations; nobody else does."""

    name: Final = "accounts"

    def __init__(
        self,
        context: Context,
        sources: AccountSources,
        *,
        want_reconfigure: Callable[[], None],
        orders: AccountOrders | None = None,
    ) -> None:
        self._context = context
        self._sources = sources
        self._want_reconfigure = want_reconfigure
        self._orders = orders or AccountOrders(context.library)
        self._key = Key(context.namespace, context.cluster)
        self._changed = asyncio.Event()
        self._arrivals = Arrivals()
        self._strangers = Strangers()
        self._failures, self._failing_since = 0, math.inf
        self._trouble = ""
        self._problems: tuple[str, ...] = ()
        self._said: tuple[Pair, ...] = ()
        self._added: set[Pair] = set()
        """By the last round."""
        self._next = 0.0
        self._begun = math.inf
        """When the round that is under way has begun."""
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()
        self.statistics: Final = AccountStatistics()

    @property
    def busy(self) -> bool:
        return not self._idle.is_set()

    def report(self) -> Report:
        told = (self._trouble, "" if loopclock.now() - self._begun < HANGS else _HANGING)
        return Report(stuck=(*self._problems, *filter(None, told)))

    async def run(self) -> Never:
        for store in (self._context.clusters.store, *(collection.store for collection in self._sources.all)):
            await store.complete()
        self._failures, self._failing_since = 0, math.inf
        with ExitStack() as subscriptions:
            subscriptions.callback(self._context.clusters.store.subscribe(self._on_cluster))
            for users in (self._sources.directory, self._sources.users):
                subscriptions.callback(users.store.subscribe(self._on_users))
            subscriptions.callback(self._sources.memory.store.subscribe(self._on_memory))
            while True:
                self._changed.clear()
                with survived(self.name):
                    await self._once()
                await self._wait()

    async def shut_down(self) -> None:
        self._closed = True
        with suppress(TimeoutError):
            async with asyncio.timeout(SHUT_DOWN):
                await self._idle.wait()

    def _on_cluster(self, _: Key, before: SlurmCluster | None, after: SlurmCluster | None) -> None:
        """Its status changes all the time."""
        if settings(before) != settings(after):
            self._changed.set()

    def _on_users(self, _: Key, before: UserMap | None, after: UserMap | None) -> None:
        if before is None or after is None or before.data != after.data:
            self._changed.set()

    def _on_memory(self, _: Key, before: ConfigMap | None, after: ConfigMap | None) -> None:
        """Only what a person says of it."""
        said = [accepted_loss(each.metadata.annotations) for each in (before, after) if each is not None]
        if len(set(said)) > 1:
            self._changed.set()

    async def _wait(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(self._next - loopclock.now(), GATHER)):
                await self._changed.wait()
        await asyncio.sleep(GATHER)

    async def _once(self) -> None:
        if self._closed:
            return
        self._begun = loopclock.now()
        self._next = self._begun + RESYNC
        self._idle.clear()
        try:
            await self._round()
        except (SlurmError, KubeError, Stale) as trouble:
            self._failed(trouble)
        except NotLeading:
            self._next = loopclock.now() + SOON
        else:
            self._failures, self._failing_since, self._trouble = 0, math.inf, ""
        finally:
            self._begun = math.inf
            self._idle.set()

    def _failed(self, trouble: Exception) -> None:
        self._failures += 1
        self._failing_since = min(self._failing_since, loopclock.now())
        self._next = loopclock.now() + BACK_OFF.delay(self._failures)
        log.warning(
            "accounts of users cannot be kept: %s; trying again in %g s", trouble, BACK_OFF.delay(self._failures)
        )
        if loopclock.now() - self._failing_since >= LASTS:
            self._trouble = f"accounting.userAccounts cannot be applied: {trouble}"

    async def _round(self) -> None:
        wanted = settings(self._context.clusters.store.get(self._key))
        if wanted is None:
            self._problems, self.statistics.last, self.statistics.unknown = (), Plan(), 0
            return
        if not isinstance(self._context.mirror.state, Known) or not self._context.may_write():
            self._next = loopclock.now() + SOON
            return
        runs = await self._context.library.configuration()
        await self._sources.memory.catch_up()
        noted = self._sources.memory.store.get(self._named(clusterobjects.USER_ACCOUNTS))
        if runs.accounting != SLURMDBD or noted is None:
            self._lacking(noted)
            return
        accounts = await self._orders.read(runs.cluster)
        if accounts.unreadable or not _is_registered(accounts):
            self._unreadable(accounts)
            return
        self.statistics.rounds += 1
        await self._keep(wanted, accounts, cluster=runs.cluster, noted=noted)

    async def _keep(self, wanted: AccountSettings, accounts: Accounts, *, cluster: str, noted: ConfigMap) -> None:
        who = self._people(wanted)
        made = self._plan(wanted, who, accounts, noted)
        executor = Executor(self._orders, cluster=cluster, qos=accounts.qos, may_write=self._context.may_write)
        try:
            await executor.execute(made.giving)
            if not made.taking.is_empty:
                wanted, accounts = await self._as_of_now(cluster)
                who = self._people(wanted)
                made, executor.qos = self._plan(wanted, who, accounts, noted), accounts.qos
                await executor.execute(made.taking)
        finally:
            self._tell(made, executor)
        await self._remember(noted, made.served)
        await self._ask_slurmctld(who, accounts, given=made.given & self._settled(who))

    def _plan(self, wanted: AccountSettings, who: People, accounts: Accounts, noted: ConfigMap) -> Plan:
        found = Found(associations=accounts.associations, qos=accounts.qos)
        return plan(
            wanted.rules,
            who,
            found,
            served=people.noted_accounts(noted.data),
            busy=self._busy(who, found),
            settled=self._settled(who),
            accepted_loss=accepted_loss(noted.metadata.annotations),
        )

    async def _as_of_now(self, cluster: str) -> tuple[AccountSettings, Accounts]:
        """All that decides who loses something, read for that: a watch may be behind, and orders take their time."""
        for collection in (self._context.clusters, self._sources.directory, self._sources.users):
            await collection.catch_up()
        await self._context.mirror.read_after()
        accounts = await self._orders.read(cluster)
        wanted = settings(self._context.clusters.store.get(self._key))
        if wanted is None or accounts.unreadable or not _is_registered(accounts):
            raise Stale("what the rules or slurmdbd say has changed meanwhile")
        return wanted, accounts

    def _people(self, wanted: AccountSettings) -> People:
        return source.read(directory=self._directory, users=self._users, directories=wanted.directories)

    @property
    def _directory(self) -> UserMap | None:
        return self._sources.directory.store.get(self._named(people.AGENT))

    @property
    def _users(self) -> UserMap | None:
        return next(iter(self._sources.users.store.all()), None)

    def _named(self, suffix: str) -> Key:
        return Key(self._context.namespace, clusterobjects.named(self._context.cluster, suffix))

    def _settled(self, who: People) -> frozenset[str]:
        """Those whom slurmctld surely knows."""
        now = loopclock.now()
        changed = source.last_change(directory=self._directory, users=self._users)
        age = math.inf if changed is None else (self._context.client.clock.now() - changed).total_seconds()
        self._arrivals.note(who.users, since=now - max(age, 0.0))
        self._look_again(self._arrivals.next(now=now))
        return self._arrivals.settled(now=now)

    def _busy(self, who: People, found: Found) -> frozenset[Pair]:
        """Who has jobs that have not ended, by account. While jobs are missing that should be there: everybody."""
        if self._context.mirror.suspicions:
            return frozenset(found.by_pair())
        names = {user.uid: name for name, user in who.users.items()}
        jobs = (job for job in self._context.mirror.jobs.all() if not job.state.ended)
        return frozenset((job.user or names.get(job.user_id, ""), job.account.lower()) for job in jobs)

    def _lacking(self, noted: ConfigMap | None) -> None:
        self._next = loopclock.now() + SOON
        name = self._named(clusterobjects.USER_ACCOUNTS).name
        self._problems = () if noted is not None else (f"ConfigMap {name} is missing: the operator should create it",)

    def _unreadable(self, accounts: Accounts) -> None:
        """Not registered yet: slurmctld does it when it starts. Unreadable: what cannot be read cannot be judged."""
        self._next = loopclock.now() + SOON
        shown = "; ".join(accounts.unreadable[:_SHOWN])
        self._problems = (f"associations of slurmdbd cannot be read: {shown}",) if shown else ()

    async def _remember(self, noted: ConfigMap, pairs: frozenset[Pair]) -> None:
        written = memory.changed(noted.data, pairs)
        if written:
            at = {"uid": noted.metadata.uid, "resourceVersion": noted.metadata.resource_version}
            patch = Merge({"metadata": at, "data": written})
            await self._sources.memory.patch(noted.key, patch)

    async def _ask_slurmctld(self, who: People, accounts: Accounts, *, given: frozenset[str]) -> None:
        """Whether it knows those who have an account; if not, have it look. Of those who are new it could not know yet."""
        try:
            known = await self._orders.known_users()
        except SlurmError as trouble:
            log.debug("cannot ask slurmctld for its users: %s", trouble)
            return
        now = loopclock.now()
        defaults = {row.user for row in accounts.associations if row.is_default}
        missing = unknown(who.users, given=given, defaults=defaults, known=known)
        self._strangers.note(missing, now=now)
        self.statistics.unknown = len(missing)
        if due := self._strangers.reconfigure(now=now):
            log.warning("slurmctld does not know %s; reconfiguring it", _list([f"{n} ({missing[n]})" for n in due]))
            self.statistics.reconfigures += 1
            self._want_reconfigure()
        if helpless := self._strangers.helpless(now=now):
            self._problems = (*self._problems, self._stranger(helpless, missing))
        if missing:
            self._look_again(now + RECHECK)

    def _stranger(self, names: tuple[str, ...], missing: dict[str, str]) -> str:
        shown = _list([f"{name} ({missing[name]})" for name in names])
        look = f"kubectl exec -n {self._key.namespace} deploy/{self._key.name}-controller -c slurmctld -- id {names[0]}"
        return f"slurmctld refuses the jobs of {shown}, although they have an account: compare with {look}, then restart slurmctld"

    def _tell(self, made: Plan, executor: Executor) -> None:
        """Say what was done, and what has to be done by others."""
        counts = self.statistics
        counts.last = made
        counts.added += len(executor.added)
        counts.changed += len(executor.changed)
        counts.removed += len(executor.removed)
        counts.refused += executor.refused
        self._problems = (*made.problems, *self._held(made.held), *executor.refusals[:_SHOWN])
        if lost := executor.added & self._added:
            self._problems = (*self._problems, _lost(lost))
        if executor.refusals or lost:
            self._look_again(loopclock.now() + REFUSED)
        elif executor.added:
            self._look_again(loopclock.now() + NOTE)
        self._added = executor.added
        waiting = tuple(sorted({*made.waiting, *executor.busy}))
        if waiting != self._said and waiting:
            log.info("%s lose their account when their jobs have ended", _list([f"{u} in {a}" for u, a in waiting]))
        self._said = waiting
        if summary := executor.summary():
            log.info("accounts of users: %s", summary)
            self._record(summary)

    def _held(self, pairs: tuple[Pair, ...]) -> tuple[str, ...]:
        if not pairs:
            return ()
        accounts = _list(sorted({account for _, account in pairs}))
        note = self._named(clusterobjects.USER_ACCOUNTS)
        accept = (
            f"kubectl annotate --overwrite -n {note.namespace} configmap {note.name} {names.ACCEPT_LOSS}={len(pairs)}"
        )
        seem = f"{len(pairs)} users seem to have left the groups of {accounts} at once, and keep their accounts"
        return (f"{seem}: check the directory. To let them go: {accept}",)

    def _record(self, summary: str) -> None:
        cluster = self._context.clusters.store.get(self._key)
        if cluster is not None:
            regarding = about(cluster, kind=SLURMCLUSTER.name, api_version=SLURMCLUSTER.api_version)
            self._context.recorder.tell(regarding, "UserAccountsChanged", summary, action="Grant")

    def _look_again(self, at: float | None) -> None:
        self._next = self._next if at is None else min(self._next, at)


def _is_registered(accounts: Accounts) -> bool:
    """Whether the cluster is known to slurmdbd: then it has the account root."""
    return any(not row.user and row.account == "root" for row in accounts.associations)


def _lost(pairs: Iterable[Pair]) -> str:
    shown = _list([f"{user} to account {account}" for user, account in sorted(pairs)])
    return f"slurmdbd accepted to add {shown}, but does not have it: check its log"


def _list(texts: list[str]) -> str:
    shown = ", ".join(texts[:_SHOWN])
    return shown if len(texts) <= _SHOWN else f"{shown} and {len(texts) - _SHOWN} more"
