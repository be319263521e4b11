"""Associations of slurmdbd: what is read, added, changed and removed, and what slurmctld makes of it.

The cluster has the account `lab` with alice, bob and slurm in it, and the QOS `normal`, `high` and `one`.
"""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace
from tests.slurm.accounting.test_accounting import ALICE, SLEEP, running
from tests.slurm.asking import job, until

from sunk.local.slurm.remote import Remote
from sunk.slurm.errors import JobsRunning, SlurmError
from sunk.slurm.libslurm.library import Library
from sunk.slurm.orders.accounts import AccountOrders, UserQos, in_batches
from sunk.slurm.orders.jobs import JobOrders
from sunk.slurm.records import Association

PLAIN = UserQos()


class Accounts:
    """One account for a test, in the cluster that slurmctld says it is."""

    def __init__(self, library: Library, cluster: str) -> None:
        self.orders = AccountOrders(library)
        self.cluster = cluster

    async def row(self, user: str, account: str) -> Association | None:
        found = await self.orders.read(self.cluster)
        assert found.unreadable == ()
        rows = [row for row in found.associations if (row.user, row.account) == (user, account)]
        assert len(rows) <= 1
        return rows[0] if rows else None

    async def qos(self) -> dict[str, int]:
        return dict((await self.orders.read(self.cluster)).qos)

    async def make(self, account: str, *users: str, qos: UserQos = PLAIN, is_default: bool = False) -> None:
        await self.orders.add_account(self.cluster, account, description="for a test")
        if users:
            await self.orders.add(self.cluster, account, users, qos=qos, comment="sunk", is_default=is_default)


@pytest.fixture
async def accounts(library: Library, cluster: Remote) -> AsyncIterator[Accounts]:
    yield Accounts(library, (await library.configuration()).cluster)
    for account in ("made", "other", "many"):
        await asyncio.to_thread(cluster.attempt, "sacctmgr", "-i", "remove", "user", "where", f"account={account}")
        await asyncio.to_thread(cluster.attempt, "sacctmgr", "-i", "remove", "account", account)


async def test_what_was_added_by_hand_is_read(accounts: Accounts) -> None:
    qos = await accounts.qos()
    assert qos.keys() >= {"normal", "high", "one"}
    bob, alice = await accounts.row("bob", "lab"), await accounts.row("alice", "lab")
    assert bob is not None
    assert alice is not None
    assert (bob.partition, bob.comment, bob.qos, bob.default_qos) == ("", "", (), 0)
    assert (bob.is_default, bob.is_limited) == (True, False)
    assert {text.removeprefix("+") for text in alice.qos} >= {str(qos["high"]), str(qos["one"])}
    root = await accounts.row("", "root")
    assert root is not None, "by which a cluster is known to be registered"


async def test_users_are_added_with_qos_and_comment_and_can_run_jobs(
    accounts: Accounts, library: Library, jobs: JobOrders
) -> None:
    qos = await accounts.qos()
    wanted = UserQos(qos=(qos["high"], qos["normal"]), default=qos["high"])
    await accounts.make("made", "alice", qos=wanted)
    row = await accounts.row("alice", "made")
    assert row is not None
    assert (set(row.qos), row.default_qos) == ({str(qos["high"]), str(qos["normal"])}, qos["high"])
    assert (row.comment, row.is_default, row.is_limited) == ("sunk", False, False)
    given = await jobs.submit(replace(SLEEP, account="made"))
    found = await job(library, given.job)
    assert (found.account, found.qos) == ("made", "high")


async def test_an_account_that_is_there_and_users_that_are_in_it_are_no_error(accounts: Accounts) -> None:
    for _ in range(2):
        await accounts.make("made", "alice")
    before = await accounts.row("bob", "lab")
    await accounts.orders.add(accounts.cluster, "lab", ["bob"], qos=PLAIN, comment="sunk", is_default=False)
    assert await accounts.row("bob", "lab") == before, "what is there is left alone"


async def test_a_new_user_gets_the_default_account_and_another_keeps_it(accounts: Accounts, cluster: Remote) -> None:
    await accounts.make("made", "carol", is_default=True)
    row = await accounts.row("carol", "made")
    assert row is not None
    assert row.is_default
    await accounts.make("other", "carol", "alice")
    assert not (await _there(accounts, "carol", "other")).is_default
    assert (await _there(accounts, "alice", "lab")).is_default
    await accounts.orders.set_default(accounts.cluster, "other", ["carol"])
    assert (await _there(accounts, "carol", "other")).is_default
    assert not (await _there(accounts, "carol", "made")).is_default
    shown = cluster.run("sacctmgr", "-nP", "show", "user", "carol", "format=user,defaultaccount")
    assert shown.split() == ["carol|other"]


async def _there(accounts: Accounts, user: str, account: str) -> Association:
    found = await accounts.row(user, account)
    assert found is not None
    return found


async def test_qos_are_changed_and_given_back_to_the_account(accounts: Accounts) -> None:
    qos = await accounts.qos()
    await accounts.make("made", "alice", "bob", qos=UserQos(qos=(qos["high"],), default=qos["high"]))
    ids = {user: (await _there(accounts, user, "made")).id for user in ("alice", "bob")}
    wanted = UserQos(qos=(qos["normal"], qos["one"]), default=qos["normal"])
    await accounts.orders.change(accounts.cluster, "made", ids, qos=wanted, comment="sunk qos=normal,one")
    for user in ids:
        row = await _there(accounts, user, "made")
        assert (set(row.qos), row.default_qos) == ({str(qos["normal"]), str(qos["one"])}, qos["normal"])
        assert row.comment == "sunk qos=normal,one"
    await accounts.orders.change(
        accounts.cluster,
        "made",
        {"alice": ids["alice"]},
        qos=UserQos(qos=(qos["high"], qos["normal"]), default=qos["high"]),
        comment="sunk qos=high,normal default=high",
        keeps_default=True,
    )
    assert (await _there(accounts, "alice", "made")).default_qos == qos["normal"]
    await accounts.orders.change(accounts.cluster, "made", {"bob": ids["bob"]}, qos=PLAIN, comment="sunk")
    row = await _there(accounts, "bob", "made")
    assert (row.qos, row.default_qos, row.comment) == ((), 0, "sunk")
    assert (await _there(accounts, "alice", "made")).qos, "nobody else's"


async def test_only_the_numbers_that_are_named_are_changed_or_removed(accounts: Accounts, cluster: Remote) -> None:
    await accounts.make("made", "alice")
    cluster.run("sacctmgr", "-i", "add", "user", "alice", "account=made", "partition=all")
    found = await accounts.orders.read(accounts.cluster)
    rows = {row.partition: row for row in found.associations if (row.user, row.account) == ("alice", "made")}
    assert rows.keys() == {"", "all"}
    await accounts.orders.change(accounts.cluster, "made", {"alice": rows["all"].id}, qos=PLAIN, comment="changed")
    found = await accounts.orders.read(accounts.cluster)
    comments = {
        row.partition: row.comment for row in found.associations if (row.user, row.account) == ("alice", "made")
    }
    assert comments == {"": "sunk", "all": "changed"}


@pytest.mark.parametrize(
    "change", ["maxjobs=5", "grptres=cpu=4", "fairshare=7", "maxwall=10", "grpsubmitjobs=3", "priority=9"]
)
async def test_a_limit_that_somebody_has_set_is_seen_and_so_is_that_of_an_account_not(
    accounts: Accounts, cluster: Remote, change: str
) -> None:
    await accounts.make("made", "alice")
    cluster.run("sacctmgr", "-i", "modify", "account", "made", "set", change)
    assert not (await _there(accounts, "alice", "made")).is_limited, "it is the account's"
    cluster.run("sacctmgr", "-i", "modify", "user", "alice", "where", "account=made", "set", change)
    assert (await _there(accounts, "alice", "made")).is_limited


async def test_a_user_may_choose_the_default_qos_and_nothing_else(accounts: Accounts, cluster: Remote) -> None:
    """So another default QOS says nothing about who has set it."""
    qos = await accounts.qos()
    await accounts.make("made", "alice", qos=UserQos(qos=(qos["high"], qos["normal"]), default=qos["normal"]))
    mine = ("sacctmgr", "-i", "modify", "user", "where", "user=alice", "account=made", "set")
    cluster.attempt("setpriv", f"--reuid={ALICE}", f"--regid={ALICE}", "--clear-groups", *mine, "defaultqos=high")
    assert (await _there(accounts, "alice", "made")).default_qos == qos["high"]
    cluster.attempt("setpriv", f"--reuid={ALICE}", f"--regid={ALICE}", "--clear-groups", *mine, "maxjobs=5")
    assert not (await _there(accounts, "alice", "made")).is_limited


async def test_a_qos_that_somebody_adds_is_seen(accounts: Accounts, cluster: Remote) -> None:
    qos = await accounts.qos()
    await accounts.make("made", "alice")
    cluster.run("sacctmgr", "-i", "modify", "user", "alice", "where", "account=made", "set", "qos+=high")
    assert (await _there(accounts, "alice", "made")).qos == (f"+{qos['high']}",)


async def test_a_removed_one_can_be_added_again_without_what_it_had(accounts: Accounts) -> None:
    qos = await accounts.qos()
    await accounts.make("made", "alice", qos=UserQos(qos=(qos["high"],), default=qos["high"]))
    row = await _there(accounts, "alice", "made")
    outcome = await accounts.orders.remove(accounts.cluster, "made", {"alice": row.id})
    assert (outcome.done, outcome.refused) == (("alice",), {})
    assert await accounts.row("alice", "made") is None
    await accounts.make("made", "alice")
    row = await _there(accounts, "alice", "made")
    assert (row.qos, row.default_qos, row.comment) == ((), 0, "sunk")


async def test_who_has_jobs_in_it_is_not_removed_and_the_others_are(
    accounts: Accounts, library: Library, jobs: JobOrders
) -> None:
    await accounts.make("made", "alice", "bob", "carol")
    given = await jobs.submit(replace(SLEEP, account="made", user_id=ALICE))
    await until(lambda: running(library, given.job))
    ids = {user: (await _there(accounts, user, "made")).id for user in ("alice", "bob", "carol")}

    async def refused() -> bool:
        """By slurmdbd, which hears of a job a moment after it has started."""
        outcome = await accounts.orders.remove(accounts.cluster, "made", {"alice": ids["alice"]})
        assert outcome.refused.keys() == {"alice"}, "the job has to be known by then"
        return isinstance(outcome.refused["alice"], JobsRunning)

    await asyncio.sleep(3)
    assert await refused()
    outcome = await accounts.orders.remove(accounts.cluster, "made", ids)
    assert (set(outcome.done), set(outcome.refused)) == ({"bob", "carol"}, {"alice"})
    assert await accounts.row("alice", "made") is not None


async def test_the_only_association_of_a_user_can_be_removed_and_a_default_only_after_another(
    accounts: Accounts,
) -> None:
    await accounts.make("made", "carol", is_default=True)
    await accounts.make("other", "carol")
    made, other = [(await _there(accounts, "carol", account)).id for account in ("made", "other")]
    await accounts.orders.set_default(accounts.cluster, "other", ["carol"])
    assert (await accounts.orders.remove(accounts.cluster, "made", {"carol": made})).done == ("carol",)
    assert (await accounts.orders.remove(accounts.cluster, "other", {"carol": other})).done == ("carol",)
    assert await accounts.row("carol", "other") is None


async def test_slurmctld_says_whom_it_knows(accounts: Accounts) -> None:
    await accounts.make("made", "nobodyknows", is_default=True)

    async def heard() -> bool:
        return "nobodyknows" in await accounts.orders.known_users()

    await until(heard)
    known = await accounts.orders.known_users()
    assert (known["alice"].uid, known["alice"].default_account) == (ALICE, "lab")
    assert known["nobodyknows"].uid is None


async def test_a_thousand_users_are_added_with_two_orders(accounts: Accounts) -> None:
    await accounts.make("many")
    users = [f"many{number}" for number in range(1000)]
    began = time.monotonic()
    for batch in in_batches(users):
        await accounts.orders.add(accounts.cluster, "many", batch, qos=PLAIN, comment="sunk", is_default=True)
    took = time.monotonic() - began
    found = await accounts.orders.read(accounts.cluster)
    rows = {row.user: row for row in found.associations if row.account == "many" and row.user}
    assert rows.keys() == set(users)
    assert all(row.is_default for row in rows.values())
    assert took < 60
    ids = {user: row.id for user, row in rows.items()}
    for batch in in_batches(users):
        outcome = await accounts.orders.remove(accounts.cluster, "many", {user: ids[user] for user in batch})
        assert set(outcome.done) == set(batch)


async def test_a_refusal_names_what_was_asked_and_nothing_is_done(accounts: Accounts) -> None:
    with pytest.raises(SlurmError, match="user alice"):
        await accounts.orders.change("nowhere", "made", {"alice": 999_999}, qos=PLAIN, comment="sunk")
    await accounts.orders.add(accounts.cluster, "nosuch", ["alice"], qos=PLAIN, comment="sunk", is_default=False)
    assert await accounts.row("alice", "nosuch") is None


@pytest.mark.parametrize("name", ["", "a'b", "a b", "a;b", "ü", "A", "x" * 200])
async def test_what_is_no_name_is_never_sent(accounts: Accounts, name: str) -> None:
    with pytest.raises(ValueError, match="not a name"):
        await accounts.orders.add(accounts.cluster, "lab", [name], qos=PLAIN, comment="sunk", is_default=False)


async def test_without_slurmdbd_there_is_an_error_and_reads_of_slurmctld_go_on(
    accounts: Accounts, library: Library, cluster: Remote
) -> None:
    await asyncio.to_thread(cluster.stop, "accounting")
    try:
        asked = asyncio.create_task(accounts.orders.read(accounts.cluster))
        assert (await library.all_nodes()).rows
        with pytest.raises(SlurmError):
            await asked
    finally:
        await asyncio.to_thread(cluster.start, "accounting")

    async def back() -> bool:
        try:
            return bool((await accounts.orders.read(accounts.cluster)).associations)
        except SlurmError:
            return False

    await until(back, seconds=60)
