"""When accounts of users are looked after, what is noted of it, and what is said when it cannot be done."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from msgspec import convert
from msgspec.structs import fields, replace
from tests.unit.slurm.blank import blank
from tests.unit.slurm.scripted import job
from tests.unit.syncer.accounts.people import Database, row
from tests.unit.syncer.builders import CLUSTER, HERE
from tests.unit.syncer.scripted import NOWHERE, Slurm, Stage
from tests.unit.syncer.stores import complete, newest, put

from sunk.kube.api.client import EVERYWHERE, Client, Listing, Scope
from sunk.kube.cache.collection import Collection
from sunk.kube.core import ConfigMap
from sunk.kube.errors import Status, Unreachable as KubeUnreachable, from_status
from sunk.kube.resource import Key, Metadata, Resource
from sunk.model import names
from sunk.model.cluster.kind import SlurmClusterSpec
from sunk.objects.slurmclusters import SLURMCLUSTERS
from sunk.slurm.errors import SlurmError, Unreachable
from sunk.slurm.mirror.accounting import SLURMDBD
from sunk.slurm.mirror.mirror import Mirror
from sunk.slurm.mirror.reading import MirrorPace
from sunk.slurm.orders.accounts import AccountOrders, Accounts, Outcome, UserQos
from sunk.slurm.records import Configuration, KnownUser
from sunk.syncer.accounts.arrivals import DOUBT, SETTLE
from sunk.syncer.accounts.controller import HANGS, RECHECK, RESYNC, AccountController, AccountSources
from sunk.syncer.accounts.plan import Addition, Change, NewDefault, Plan, Removal, UserQosNames
from sunk.syncer.accounts.source import FieldsManager, UserMap, WrittenMetadata

pytestmark = pytest.mark.looptime

SLOW = MirrorPace(quickest=20.0, slowest=20.0, seldom=20.0)
RULES = [{"account": "lab", "group": "ml", "qos": ["normal"]}]
PASSWD = "".join(f"{name}:*:{uid}:900::/home/{name}:/bin/sh\n" for name, uid in (("alice", 1001), ("bob", 1002)))
GROUP = "ml:*:901:alice\n"


class Kubernetes(Client):
    """Takes notes about accounts, and has the ConfigMaps that were put, unless newer ones are here."""

    theatre: "Theatre"

    async def list(self, resource: Resource[Any], scope: Scope = EVERYWHERE, **_: Any) -> Listing[Any]:
        assert resource.plural in {"configmaps", "slurmclusters"}
        name = scope.fields.split("=")[-1] or CLUSTER
        if name in self.theatre.unreadable:
            raise KubeUnreachable("GET: no answer")
        found = self.theatre.newer.get(name)
        there = [each for collection in self.theatre.followed for each in collection.store.all()]
        items = [each for each in there if each.metadata.name == name] if found is None else [found]
        return Listing(tuple(items), newest())

    async def patch(self, resource: Resource[Any], name: str, patch: Any, **_: Any) -> Any:
        assert resource.plural == "configmaps"
        store = self.theatre.sources.memory.store
        before = store.get(Key(HERE, name))
        assert before is not None
        if patch.body["metadata"]["resourceVersion"] != before.metadata.resource_version:
            raise from_status(Status(message="modified", reason="Conflict", code=409), code=409, asked="PATCH")
        data = {key: text for key, text in (before.data | patch.body["data"]).items() if text is not None}
        self.theatre.notes.append(dict(patch.body["data"]))
        return replace(before, data=data, metadata=replace(before.metadata, resource_version=newest()))


class Accounted(Slurm):
    """A slurmctld with accounting, or without."""

    accounting = SLURMDBD

    async def configuration(self) -> Configuration:
        found = await super().configuration()
        return replace(blank(Configuration, cluster=CLUSTER, accounting=self.accounting), boot_time=found.boot_time)


class Slurmdbd:
    """Stands where AccountOrders do; the database is that of the plan's tests."""

    def __init__(self) -> None:
        self.database = Database()
        self.asked = 0
        self.told: list[Plan] = []
        self.away: SlurmError | None = None
        self.hangs: asyncio.Event | None = None
        """It takes a question, and answers when this is set."""
        self.loses = False
        """It takes additions, and does nothing."""
        self.meanwhile: Callable[[], None] = lambda: None
        """What others do when it has just been read."""
        self.forgets: set[str] = set()
        """Whom slurmctld does not know."""

    async def read(self, cluster: str) -> Accounts:
        assert cluster == CLUSTER
        self.asked += 1
        if self.hangs is not None:
            await self.hangs.wait()
        if self.away is not None:
            raise self.away
        found = Accounts(associations=tuple(self.database.rows.values()), qos=dict(self.database.qos))
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        return found

    async def known_users(self) -> dict[str, KnownUser]:
        users = {each.user for each in self.database.rows.values()}
        uids = {"alice": 1001, "bob": 1002}
        return {name: KnownUser(name, None if name in self.forgets else uids.get(name), "lab") for name in users}

    def _do(self, plan: Plan) -> None:
        self.told.append(plan)
        self.database.carry_out(plan)

    async def add_account(self, _: str, account: str, *, description: str) -> None:
        assert description
        self._do(Plan(accounts=(account,)))

    async def add(
        self, _: str, account: str, users: Iterable[str], *, qos: UserQos, comment: str, is_default: bool
    ) -> None:
        assert comment.startswith("sunk")
        if self.loses:
            return
        self._do(Plan(additions=(Addition(account, self._names(qos), is_default, tuple(users)),)))

    async def change(
        self,
        _: str,
        account: str,
        associations: Mapping[str, int],
        *,
        qos: UserQos,
        comment: str,
        keeps_default: bool,
    ) -> None:
        assert comment.startswith("sunk")
        self._do(Plan(changes=(Change(account, self._names(qos), associations, keeps_default),)))

    async def set_default(self, _: str, account: str, users: Iterable[str]) -> None:
        self._do(Plan(defaults=(NewDefault(account, tuple(users)),)))

    async def remove(self, _: str, account: str, associations: Mapping[str, int]) -> Outcome:
        self._do(Plan(removals=(Removal(account, associations),)))
        return Outcome(done=tuple(associations))

    def _names(self, qos: UserQos) -> UserQosNames:
        names = {number: name for name, number in self.database.qos.items()}
        return UserQosNames(tuple(names[number] for number in qos.qos), names.get(qos.default, ""))


class Theatre:
    """The controller between a SlurmCluster, ConfigMaps and a slurmdbd by a script."""

    def __init__(self) -> None:
        self.client = Kubernetes(NOWHERE)
        self.client.theatre = self
        self.slurm = Accounted()
        self.stage = Stage(self.slurm, client=self.client)
        # To read every second would take most of the time of a test that lasts for hours.
        self.context = replace(self.stage.context, mirror=Mirror(self.slurm, pace=SLOW))
        self.slurmdbd = Slurmdbd()
        self.notes: list[dict[str, Any]] = []
        self.newer: dict[str, Any] = {}
        """ConfigMaps of which no watch has told yet."""
        self.unreadable: set[str] = set()
        self.reconfigures = 0
        self.sources = AccountSources.of(self.client, namespace=HERE, cluster=CLUSTER)
        self.accounts = AccountController(
            self.context,
            self.sources,
            want_reconfigure=self._reconfigure,
            orders=cast("AccountOrders", self.slurmdbd),
        )

    @property
    def followed(self) -> tuple[Collection[Any], ...]:
        return (self.context.clusters, *self.sources.all)

    def _reconfigure(self) -> None:
        self.reconfigures += 1

    def rule(self, *rules: dict[str, Any], enabled: bool = True) -> None:
        spec = {"accounting": {"enabled": enabled, "userAccounts": {"rules": list(rules)}}}
        meta = Metadata(name=CLUSTER, namespace=HERE, uid="u")
        record = SLURMCLUSTERS.record
        status = next(each.type for each in fields(record) if each.name == "status")()
        put(
            self.context.clusters.store,
            record(metadata=meta, spec=convert(spec, SlurmClusterSpec), status=status),
        )

    def users(self, group: str = GROUP, *, passwd: str = PASSWD, age: float | None = None) -> None:
        made = datetime.now(UTC) - timedelta(days=1)
        times = () if age is None else (FieldsManager(datetime.now(UTC) - timedelta(seconds=age)),)
        meta = WrittenMetadata(name=f"{CLUSTER}-users", namespace=HERE, creation_timestamp=made, managed_fields=times)
        put(self.sources.users.store, UserMap(metadata=meta, data={"passwd": passwd, "group": group}))

    def memory(self, annotations: dict[str, str] | None = None) -> None:
        meta = Metadata(name=f"{CLUSTER}-user-accounts", namespace=HERE, uid="m", annotations=annotations or {})
        before = next(iter(self.sources.memory.store.all()), ConfigMap(metadata=meta))
        put(self.sources.memory.store, replace(before, metadata=meta))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        for store in (self.context.clusters.store, *(each.store for each in self.sources.all)):
            complete(store)
        async with self.context.mirror.running():
            await self.context.mirror.read_after()
            task = asyncio.create_task(self.accounts.run(), name="accounts")
            try:
                yield
            finally:
                task.cancel()
                await asyncio.wait({task})
                await self.client.close()

    def stuck(self) -> tuple[str, ...]:
        return self.accounts.report().stuck


def theatre(*rules: dict[str, Any]) -> Theatre:
    made = Theatre()
    made.rule(*(rules or RULES))
    made.users()
    made.memory()
    return made


async def test_a_user_gets_the_account_and_it_is_noted() -> None:
    made = theatre()
    async with made.running():
        await asyncio.sleep(5)
        assert made.slurmdbd.database.of("alice").keys() == {"lab"}
        assert made.notes == [{"lab": "alice"}]
        assert made.stuck() == ()
        assert made.accounts.statistics.added == 1


async def test_what_slurmdbd_took_and_does_not_have_is_no_removal_and_is_said() -> None:
    made = theatre()
    made.slurmdbd.loses = True
    async with made.running():
        await asyncio.sleep(30)
        assert made.notes == []
        (sentence,) = made.stuck()
        assert sentence == "slurmdbd accepted to add alice to account lab, but does not have it: check its log"
        asked = made.slurmdbd.asked
        await asyncio.sleep(600)
        assert made.slurmdbd.asked - asked <= 12
        made.slurmdbd.loses = False
        await asyncio.sleep(120)
        assert (made.notes, made.stuck()) == ([{"lab": "alice"}], ())


async def test_without_rules_or_accounting_slurmdbd_is_asked_nothing() -> None:
    for rules, enabled in (((), True), (tuple(RULES), False)):
        made = theatre()
        made.rule(*rules, enabled=enabled)
        async with made.running():
            await asyncio.sleep(3 * RESYNC)
            assert (made.slurmdbd.asked, made.notes, made.stuck()) == (0, [], ())


async def test_without_a_slurmdbd_in_slurm_conf_it_is_not_asked() -> None:
    made = theatre()
    made.slurm.accounting = ""
    async with made.running():
        await asyncio.sleep(60)
        assert (made.slurmdbd.asked, made.stuck()) == (0, ())
        made.slurm.accounting = SLURMDBD
        await asyncio.sleep(10)
        assert made.slurmdbd.database.of("alice")


async def test_a_change_of_groups_is_followed_at_once_and_else_it_is_seldom_asked() -> None:
    made = theatre()
    async with made.running():
        await asyncio.sleep(60)
        asked = made.slurmdbd.asked
        await asyncio.sleep(2 * RESYNC)
        assert made.slurmdbd.asked - asked <= 3
        made.users("ml:*:901:bob\n")
        await asyncio.sleep(5)
        assert made.slurmdbd.database.of("alice") == {}
        assert made.slurmdbd.database.of("bob").keys() == {"lab"}
        assert made.notes[-1] == {"lab": "bob"}


async def test_a_status_of_the_cluster_is_no_reason_to_ask() -> None:
    made = theatre()
    async with made.running():
        await asyncio.sleep(60)
        asked = made.slurmdbd.asked
        for _ in range(50):
            made.rule(*RULES)
            await asyncio.sleep(1)
        assert made.slurmdbd.asked == asked


async def test_what_an_administrator_removes_stays_removed_also_for_the_next_process() -> None:
    made = theatre()
    async with made.running():
        await asyncio.sleep(5)
        made.slurmdbd.database.delete("alice", "lab")
        await asyncio.sleep(2 * RESYNC)
        assert made.slurmdbd.database.of("alice") == {}
    later = theatre()
    later.slurmdbd = made.slurmdbd
    later.accounts._orders = cast("AccountOrders", made.slurmdbd)  # noqa: SLF001 - the same database
    put(later.sources.memory.store, *made.sources.memory.store.all())
    async with later.running():
        await asyncio.sleep(2 * RESYNC)
        assert later.slurmdbd.database.of("alice") == {}


async def test_who_is_new_gets_it_when_slurmctld_surely_knows_the_name() -> None:
    made = theatre()
    made.users("ml:*:901:alice\n")
    async with made.running():
        await asyncio.sleep(5)
        more = f"{PASSWD}carol:*:1003:901::/:/bin/sh\n"
        made.users(passwd=more, age=0)
        await asyncio.sleep(SETTLE / 2)
        assert made.slurmdbd.database.of("carol") == {}
        assert made.accounts.statistics.last.arriving == (("carol", "lab"),)
        await asyncio.sleep(SETTLE / 2 + 5)
        assert made.slurmdbd.database.of("carol").keys() == {"lab"}


async def test_jobs_keep_the_account_until_they_end() -> None:
    made = theatre()
    made.slurm.put(job(7, user_id=1001, account="lab"))
    async with made.running():
        await asyncio.sleep(5)
        made.users("ml:*:901:\n")
        await asyncio.sleep(RESYNC + 10)
        assert made.slurmdbd.database.of("alice").keys() == {"lab"}
        assert made.accounts.statistics.last.waiting == (("alice", "lab"),)
        made.slurm.put(job(7, user_id=1001, account="lab", state=3))
        await asyncio.sleep(RESYNC + 10)
        assert made.slurmdbd.database.of("alice") == {}


async def test_a_slurmdbd_that_is_away_is_said_if_it_lasts_and_nothing_is_lost() -> None:
    made = theatre()
    made.slurmdbd.away = Unreachable(7000, asked="read associations from slurmdbd", text="no connection")
    async with made.running():
        await asyncio.sleep(60)
        assert made.stuck() == ()
        await asyncio.sleep(600)
        (sentence,) = made.stuck()
        assert sentence.startswith("accounting.userAccounts cannot be applied: read associations from slurmdbd:")
        asked = made.slurmdbd.asked
        await asyncio.sleep(600)
        assert made.slurmdbd.asked - asked <= 3, "less and less often"
        made.slurmdbd.away = None
        await asyncio.sleep(RESYNC + 5)
        assert (made.stuck(), set(made.slurmdbd.database.of("alice"))) == ((), {"lab"})


async def test_a_qos_that_does_not_exist_is_reported_and_the_rest_goes_on() -> None:
    made = theatre({"account": "lab", "group": "ml", "qos": ["gold"]}, {"account": "guests"})
    async with made.running():
        await asyncio.sleep(5)
        (sentence,) = made.stuck()
        assert sentence.startswith("accounting.userAccounts.rules[0].qos: slurmdbd has no QOS gold")
        assert made.slurmdbd.database.of("alice").keys() == {"guests"}
        made.slurmdbd.database.qos["gold"] = 9
        await asyncio.sleep(RESYNC + 5)
        assert made.stuck() == ()
        assert made.slurmdbd.database.of("alice").keys() == {"guests", "lab"}


async def test_a_user_whom_slurmctld_does_not_know_costs_one_reconfigure_and_is_then_reported() -> None:
    made = theatre()
    made.slurmdbd.forgets = {"alice"}
    async with made.running():
        await asyncio.sleep(10)
        assert made.reconfigures == 0
        await asyncio.sleep(60)
        assert (made.reconfigures, made.stuck()) == (1, ())
        await asyncio.sleep(600)
        assert made.reconfigures == 1
        (sentence,) = made.stuck()
        assert "slurmctld refuses the jobs of alice (no uid)" in sentence
        made.slurmdbd.forgets = set()
        await asyncio.sleep(60)
        assert made.stuck() == ()


async def test_without_the_note_nobody_is_given_anything() -> None:
    made = Theatre()
    made.rule(*RULES)
    made.users()
    async with made.running():
        await asyncio.sleep(30)
        assert (made.slurmdbd.asked, made.stuck()) == (
            0,
            ("ConfigMap big-user-accounts is missing: the operator should create it",),
        )
        made.memory()
        await asyncio.sleep(10)
        assert made.slurmdbd.database.of("alice")


async def test_a_copy_that_does_not_lead_tells_slurmdbd_nothing() -> None:
    made = theatre()
    made.stage.leads = False
    async with made.running():
        await asyncio.sleep(60)
        assert made.slurmdbd.told == []
        made.stage.leads = True
        await asyncio.sleep(10)
        assert made.slurmdbd.told


async def test_a_cluster_that_slurmdbd_does_not_know_yet_is_waited_for() -> None:
    made = theatre()
    rows, made.slurmdbd.database.rows = made.slurmdbd.database.rows, {}
    async with made.running():
        await asyncio.sleep(30)
        assert (made.slurmdbd.told, made.stuck()) == ([], ())
        made.slurmdbd.database.rows = rows
        await asyncio.sleep(10)
        assert made.slurmdbd.database.of("alice")


async def test_slurmctld_is_not_told_to_look_before_the_name_can_be_in_its_pod() -> None:
    made = theatre()
    async with made.running():
        await asyncio.sleep(30)
        made.users(passwd=PASSWD.replace("1001", "1111"), age=0)
        await asyncio.sleep(SETTLE - 10)
        assert made.reconfigures == 0, "it would look in vain, and is told only once"
        await asyncio.sleep(RECHECK + DOUBT + 20)
        assert made.reconfigures == 1


async def test_a_note_of_another_leader_counts_before_the_watch_has_told_of_it() -> None:
    made = theatre()
    made.rule()
    made.slurmdbd.database.insert(row("", "lab"))
    async with made.running():
        await asyncio.sleep(10)
        (before,) = made.sources.memory.store.all()
        later = replace(before.metadata, resource_version=newest())
        made.newer[before.metadata.name] = replace(before, metadata=later, data={"lab": "alice"})
        made.rule(*RULES)
        await asyncio.sleep(30)
        assert made.slurmdbd.database.of("alice") == {}, "an administrator has removed it since"
        assert made.accounts.statistics.last.withheld == (("alice", "lab"),)


async def test_what_an_administrator_changes_while_orders_are_given_is_not_removed() -> None:
    made = theatre()
    async with made.running():
        await asyncio.sleep(5)
        made.slurmdbd.meanwhile = lambda: made.slurmdbd.database.alter("alice", "lab", is_limited=True)
        made.users("ml:*:901:bob\n")
        await asyncio.sleep(30)
        assert made.slurmdbd.database.of("alice").keys() == {"lab"}
        assert made.slurmdbd.database.of("bob").keys() == {"lab"}


async def test_nobody_loses_an_account_by_a_list_that_has_changed_since() -> None:
    """The watch is behind: by now alice is in the group again."""
    made = theatre()
    async with made.running():
        await asyncio.sleep(5)
        (before,) = made.sources.users.store.all()
        made.users("ml:*:901:\n")
        later = replace(before.metadata, resource_version=newest())
        made.newer[before.metadata.name] = replace(before, metadata=later)
        await asyncio.sleep(30)
        assert made.slurmdbd.database.of("alice").keys() == {"lab"}
        assert made.accounts.statistics.removed == 0


async def test_nobody_loses_an_account_while_the_list_cannot_be_read() -> None:
    made = theatre()
    async with made.running():
        await asyncio.sleep(5)
        made.unreadable = {f"{CLUSTER}-users"}
        made.users("ml:*:901:bob\n")
        await asyncio.sleep(30)
        assert made.slurmdbd.database.of("alice").keys() == {"lab"}
        assert made.slurmdbd.database.of("bob").keys() == {"lab"}, "what is given hurts nobody"
        made.unreadable = set()
        await asyncio.sleep(60)
        assert made.slurmdbd.database.of("alice") == {}


async def test_a_group_that_is_suddenly_empty_is_reported_and_a_person_can_accept_it() -> None:
    many = [f"u{number}" for number in range(8)]
    passwd = "".join(f"{name}:*:{2000 + number}:900::/:/bin/sh\n" for number, name in enumerate(many))
    made = theatre()
    made.users(f"ml:*:901:{','.join(many)}\n", passwd=passwd)
    async with made.running():
        await asyncio.sleep(5)
        made.users("ml:*:901:\n", passwd=passwd)
        await asyncio.sleep(30)
        assert len(made.slurmdbd.database.of("u0")) == 1
        (sentence,) = made.stuck()
        assert sentence.startswith("8 users seem to have left the groups of lab at once, and keep their accounts")
        words = "kubectl annotate --overwrite -n slurm configmap big-user-accounts sunk.coreweave.com/accept-loss=8"
        assert sentence.endswith(words)
        made.memory({names.ACCEPT_LOSS: "8"})
        await asyncio.sleep(10)
        assert (made.slurmdbd.database.of("u0"), made.stuck()) == ({}, ())


async def test_a_slurmdbd_that_takes_a_question_and_does_not_answer_is_said() -> None:
    made = theatre()
    made.slurmdbd.hangs = asyncio.Event()
    async with made.running():
        await asyncio.sleep(60)
        assert made.stuck() == ()
        await asyncio.sleep(HANGS)
        (sentence,) = made.stuck()
        assert (
            sentence
            == "accounting.userAccounts: slurmdbd has not answered for 5 minutes: check its log and its database"
        )
        made.slurmdbd.hangs.set()
        await asyncio.sleep(10)
        assert (made.stuck(), set(made.slurmdbd.database.of("alice"))) == ((), {"lab"})
