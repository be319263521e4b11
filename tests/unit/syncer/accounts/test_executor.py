"""A plan is carried out with few orders, and one that is refused does not hold up the others."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from sunk.slurm.errors import Denied, JobsRunning, SlurmError, Unreachable
from sunk.slurm.orders.accounts import MOST, AccountOrders, Outcome, UserQos
from sunk.syncer.accounts.executor import MOST_REFUSALS, Executor, NotLeading
from sunk.syncer.accounts.plan import Addition, Change, NewDefault, Plan, Removal, UserQosNames

QOS = {"normal": 1, "high": 2}
PLAIN = UserQosNames()


class Orders:
    """Writes down what slurmdbd is told, and refuses what the test says."""

    def __init__(self, refuses: Callable[[str, tuple[str, ...]], Exception | None] = lambda *_: None) -> None:
        self.told: list[tuple[str, str, tuple[str, ...]]] = []
        self.qos: list[UserQos] = []
        self._refuses = refuses

    def _tell(self, what: str, account: str, users: Any) -> None:
        names = tuple(users)
        self.told.append((what, account, names))
        if (refusal := self._refuses(what, names)) is not None:
            raise refusal

    async def add_account(self, _: str, account: str, *, description: str) -> None:
        assert description
        self._tell("account", account, ())

    async def add(self, _: str, account: str, users: Any, *, qos: UserQos, comment: str, is_default: bool) -> None:
        assert comment.startswith("sunk")
        self.qos.append(qos)
        self._tell("default" if is_default else "add", account, users)

    async def change(
        self, _: str, account: str, associations: Any, *, qos: UserQos, comment: str, keeps_default: bool
    ) -> None:
        assert comment.startswith("sunk")
        self.qos.append(qos)
        self._tell("change, not the default" if keeps_default else "change", account, associations)

    async def set_default(self, _: str, account: str, users: Any) -> None:
        self._tell("set default", account, users)

    async def remove(self, _: str, account: str, associations: Any) -> Outcome:
        self._tell("remove", account, associations)
        busy = {user: JobsRunning(7001, asked="remove") for user in associations if user.startswith("busy")}
        return Outcome(done=tuple(user for user in associations if user not in busy), refused=busy)


def executor(orders: Orders, *, leads: Callable[[], bool] = lambda: True) -> Executor:
    return Executor(cast("AccountOrders", orders), cluster="slurm", qos=QOS, may_write=leads)


def refusing(*names: str) -> Callable[[str, tuple[str, ...]], Exception | None]:
    def refuse(_: str, users: tuple[str, ...]) -> Exception | None:
        wrong = [name for name in users if name in names]
        return SlurmError(7004, asked=f"add {wrong[0]}", text="bad name", name="ESLURM_BAD_NAME") if wrong else None

    return refuse


async def test_everything_is_told_in_the_order_of_the_plan() -> None:
    orders = Orders()
    made = executor(orders)
    await made.execute(
        Plan(
            accounts=("lab",),
            additions=(
                Addition(
                    "lab", qos=UserQosNames(("high", "normal"), "normal"), is_default=True, users=("alice", "bob")
                ),
            ),
            changes=(Change("lab", PLAIN, {"carol": 7}), Change("lab", PLAIN, {"erin": 9}, keeps_default=True)),
            defaults=(NewDefault("guests", ("dave",)),),
            removals=(Removal("lab", {"dave": 8}),),
        )
    )
    assert orders.told == [
        ("account", "lab", ()),
        ("default", "lab", ("alice", "bob")),
        ("change", "lab", ("carol",)),
        ("change, not the default", "lab", ("erin",)),
        ("set default", "guests", ("dave",)),
        ("remove", "lab", ("dave",)),
    ]
    assert orders.qos == [UserQos((2, 1), 1), UserQos(), UserQos()]
    assert made.added == {("alice", "lab"), ("bob", "lab")}
    assert made.summary() == "added alice, bob to lab; changed carol, erin in lab; removed dave from lab"


async def test_a_thousand_users_take_two_orders() -> None:
    orders = Orders()
    users = tuple(f"u{number}" for number in range(2 * MOST))
    made = executor(orders)
    await made.execute(Plan(additions=(Addition("lab", qos=PLAIN, is_default=True, users=users),)))
    assert [len(names) for _, _, names in orders.told] == [MOST, MOST]
    assert made.summary() == "added 1000 users to lab"


async def test_one_who_is_refused_is_found_and_the_others_are_added() -> None:
    users = tuple(f"u{number}" for number in range(400))
    orders = Orders(refusing("u7", "u300"))
    made = executor(orders)
    await made.execute(
        Plan(
            additions=(
                Addition("lab", qos=PLAIN, is_default=True, users=users),
                Addition("guests", qos=PLAIN, is_default=False, users=("u1",)),
            )
        )
    )
    assert len(made.added) == 399
    assert {("u7", "lab"), ("u300", "lab")}.isdisjoint(made.added)
    assert made.refusals == [
        "slurmdbd refused to add u7: bad name (ESLURM_BAD_NAME 7004)",
        "slurmdbd refused to add u300: bad name (ESLURM_BAD_NAME 7004)",
    ]
    assert len(orders.told) < 50


async def test_if_everybody_is_refused_that_is_asked_only_so_often() -> None:
    users = tuple(f"u{number}" for number in range(5000))
    orders = Orders(refusing(*users))
    await executor(orders).execute(Plan(additions=(Addition("lab", qos=PLAIN, is_default=True, users=users),)))
    assert len(orders.told) < 3 * MOST_REFUSALS


async def test_without_the_right_to_do_it_nothing_is_split() -> None:
    orders = Orders(lambda *_: Denied(2002, asked="add 2 users to account lab", text="Access denied"))
    made = executor(orders)
    await made.execute(Plan(additions=(Addition("lab", qos=PLAIN, is_default=True, users=("alice", "bob")),)))
    assert len(orders.told) == 1
    assert "the syncer has to be SlurmUser or an operator in slurmdbd" in made.refusals[0]


async def test_users_of_an_account_that_cannot_be_made_are_left_out() -> None:
    orders = Orders(lambda what, _: SlurmError(7004, asked="add account lab") if what == "account" else None)
    made = executor(orders)
    plan = Plan(
        accounts=("lab",),
        additions=(
            Addition("lab", qos=PLAIN, is_default=True, users=("alice",)),
            Addition("x", qos=PLAIN, is_default=True, users=("bob",)),
        ),
    )
    await made.execute(plan)
    assert made.added == {("bob", "x")}


async def test_a_slurmdbd_that_is_away_ends_it_and_what_was_done_is_known() -> None:
    orders = Orders(lambda what, _: Unreachable(1800, asked="change") if what == "change" else None)
    made = executor(orders)
    with pytest.raises(Unreachable):
        await made.execute(
            Plan(
                additions=(Addition("lab", qos=PLAIN, is_default=True, users=("alice",)),),
                changes=(Change("lab", PLAIN, {"bob": 3}),),
            )
        )
    assert made.added == {("alice", "lab")}


@pytest.mark.parametrize("errno", [-1, 11, 107])
async def test_a_slurmdbd_that_dies_in_the_middle_is_not_told_the_rest(errno: int) -> None:
    """What libslurm then says is that something went wrong, and not what: nobody was refused."""
    orders = Orders(lambda _, users: SlurmError(errno, asked="add") if "u600" in users else None)
    made = executor(orders)
    users = tuple(f"u{number}" for number in range(3 * MOST))
    with pytest.raises(SlurmError):
        await made.execute(Plan(additions=(Addition("lab", qos=PLAIN, is_default=True, users=users),)))
    assert (len(orders.told), len(made.added)) == (2, MOST)
    assert (made.refused, made.refusals) == (0, [])


async def test_nothing_is_told_by_one_that_no_longer_leads() -> None:
    orders, answers = Orders(), iter([True, False])
    with pytest.raises(NotLeading):
        await executor(orders, leads=lambda: next(answers)).execute(
            Plan(
                additions=(
                    Addition("a", qos=PLAIN, is_default=True, users=("alice",)),
                    Addition("b", qos=PLAIN, is_default=False, users=("alice",)),
                )
            )
        )
    assert len(orders.told) == 1


async def test_those_with_jobs_stay_and_are_known() -> None:
    made = executor(Orders())
    await made.execute(Plan(removals=(Removal("lab", {"alice": 1, "busy1": 2}),)))
    assert (made.removed, made.busy) == ({("alice", "lab")}, {("busy1", "lab")})


async def test_what_is_never_sent_is_said_and_does_not_hold_up_the_rest() -> None:
    """The next default account of a user may be one that an administrator has given an odd name."""
    orders = Orders(lambda what, _: ValueError("not a name: 'a b'") if what == "set default" else None)
    made = executor(orders)
    await made.execute(Plan(defaults=(NewDefault("a b", ("dave", "erin")),), removals=(Removal("lab", {"fay": 8}),)))
    assert made.removed == {("fay", "lab")}
    assert made.refusals == ["not a name: 'a b'"]
    assert len(orders.told) == 2, "nobody in particular is the reason"
