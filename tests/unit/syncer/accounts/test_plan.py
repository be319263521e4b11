"""Who gets which account, what is ours, and what an administrator has done stays."""

from collections.abc import Iterable

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace
from tests.unit.syncer.accounts.people import QOS, Database, people, row

from sunk.model.cluster.daemons import AccountRule
from sunk.slurm.records import Association
from sunk.syncer.accounts.plan import Pair, Plan, UserQosNames, marked, ours, plan
from sunk.syncer.accounts.source import People

LAB = AccountRule(account="lab", group="ml", qos=("normal", "high"), default_qos="normal")
ALL = AccountRule(account="guests")


class World:
    """A database and a memory, and rounds on them."""

    def __init__(self, *rows: Association) -> None:
        self.database = Database(*rows)
        self.served: frozenset[Pair] = frozenset()

    def round(self, rules: Iterable[AccountRule], who: People, busy: Iterable[Pair] = (), *, accepted: int = 0) -> Plan:
        """Plan, do it, and note what is there then."""
        made = plan(rules, who, self.database.found(), served=self.served, busy=frozenset(busy), accepted_loss=accepted)
        self.database.carry_out(made)
        self.served = plan(
            rules, who, self.database.found(), served=made.served, busy=frozenset(busy), accepted_loss=accepted
        ).served
        return made


def test_a_member_of_a_group_gets_the_account_with_its_qos() -> None:
    world = World()
    world.round([LAB], people({"ml": ["alice"]}, users=["bob"]))
    assert world.database.of("bob") == {}
    (made,) = world.database.of("alice").values()
    assert (made.account, made.is_default, made.default_qos) == ("lab", True, QOS["normal"])
    assert set(made.qos) == {"1", "2"}
    assert made.comment == "sunk qos=high,normal default=normal"


def test_everybody_gets_the_account_of_a_rule_without_a_group_and_all_rules_count() -> None:
    world = World()
    made = world.round([LAB, ALL], people({"ml": ["alice"]}, users=["bob"]))
    assert made.accounts == ("lab", "guests")
    assert world.database.of("alice").keys() == {"lab", "guests"}
    assert world.database.of("bob").keys() == {"guests"}
    assert world.database.of("alice")["lab"].is_default, "the first rule that applies"
    assert world.database.of("bob")["guests"].is_default
    assert made.wanted == 3


def test_a_primary_group_counts() -> None:
    who = people({"ml": []}, users=["alice"])
    who = replace(who, users={"alice": replace(who.users["alice"], gid=who.groups["ml"].gid)})
    assert plan([LAB], who, Database().found()).additions[0].users == ("alice",)


def test_a_thousand_users_take_few_orders() -> None:
    names = [f"u{number}" for number in range(1000)]
    groups = {f"g{number}": names[number::50] for number in range(50)}
    rules = [ALL, *(AccountRule(account=f"a{number}", group=f"g{number}") for number in range(50))]
    made = plan(rules, people(groups), Database().found())
    assert len(made.additions) == 51
    assert sum(len(each.users) for each in made.additions) == 2000


def test_a_second_look_finds_nothing_to_do() -> None:
    world, who = World(), people({"ml": ["alice", "bob"]})
    assert not world.round([LAB, ALL], who).is_empty
    assert world.round([LAB, ALL], who).is_empty


def test_what_an_administrator_has_made_is_left_alone() -> None:
    mine = row("alice", "lab", is_default=True, is_limited=True, qos=("3",), comment="project 7")
    world = World(mine)
    made = world.round([LAB], people({"ml": ["alice"]}))
    assert made.is_empty
    assert made.foreign == (("alice", "lab"),)
    assert world.round([], people({"ml": ["alice"]})).is_empty


def test_the_default_account_of_somebody_who_has_one_is_not_touched() -> None:
    world = World(row("alice", "physics", is_default=True))
    world.round([LAB], people({"ml": ["alice"]}))
    assert world.database.of("alice")["physics"].is_default
    assert not world.database.of("alice")["lab"].is_default


def test_who_leaves_the_group_loses_the_account() -> None:
    world = World()
    world.round([LAB, ALL], people({"ml": ["alice", "bob"]}))
    made = world.round([LAB, ALL], people({"ml": ["bob"]}, users=["alice"]))
    assert world.database.of("alice").keys() == {"guests"}
    assert world.database.of("alice")["guests"].is_default, "the default moves first, or slurmdbd refuses"
    assert made.defaults[0].account == "guests"
    assert world.database.of("bob").keys() == {"lab", "guests"}


def test_the_last_account_goes_too() -> None:
    world = World()
    world.round([LAB], people({"ml": ["alice"]}))
    made = world.round([LAB], people({"ml": []}, users=["alice"]))
    assert made.defaults == ()
    assert world.database.of("alice") == {}


def test_nobody_loses_an_account_while_jobs_are_in_it() -> None:
    world = World()
    world.round([LAB], people({"ml": ["alice"]}))
    left = people({"ml": []}, users=["alice"])
    made = world.round([LAB], left, busy=[("alice", "lab")])
    assert (made.is_empty, made.waiting) == (True, (("alice", "lab"),))
    assert world.round([LAB], left).removals[0].associations.keys() == {"alice"}


def test_who_has_vanished_keeps_the_account() -> None:
    world = World()
    world.round([LAB], people({"ml": ["alice", "bob"]}))
    assert world.round([LAB], people({"ml": ["bob"]})).is_empty


def test_a_list_that_is_not_complete_costs_nobody_anything() -> None:
    world = World()
    world.round([LAB], people({"ml": ["alice"]}))
    assert world.round([LAB], people({"ml": []}, users=["alice"], complete=False)).is_empty
    assert world.served == {("alice", "lab")}


def test_a_group_that_does_not_exist_costs_nobody_anything_and_is_named() -> None:
    world = World()
    world.round([LAB], people({"ml": ["alice"]}))
    made = world.round([LAB, ALL], people({}, users=["alice"]))
    assert made.removals == ()
    assert made.problems == (
        "accounting.userAccounts.rules[0].group: there is no group ml; nobody gets account lab by this rule",
    )
    assert world.database.of("alice").keys() == {"lab", "guests"}, "other rules go on"


MANY = tuple(f"u{number:02}" for number in range(10))


@pytest.mark.parametrize("left", [0, 1, 4])
def test_a_group_that_loses_most_of_its_members_at_once_is_not_believed(left: int) -> None:
    """A directory that withholds members, or a group that was emptied by mistake."""
    world = World()
    world.round([LAB], people({"ml": MANY}))
    less = people({"ml": MANY[:left]}, users=MANY)
    made = world.round([LAB], less)
    assert (made.is_empty, len(made.held)) == (True, 10 - left)
    assert world.round([LAB], less, accepted=10 - left - 1).is_empty, "that was said of fewer"
    assert world.round([LAB], people({"ml": MANY})).held == ()
    assert len(world.round([LAB], less, accepted=10 - left).removals[0].associations) == 10 - left


def test_half_of_a_group_may_leave_and_so_may_a_few() -> None:
    world = World()
    world.round([LAB], people({"ml": MANY}))
    world.round([LAB], people({"ml": MANY[:5]}, users=MANY))
    assert sum("lab" in world.database.of(user) for user in MANY) == 5
    world.round([LAB], people({"ml": []}, users=MANY))
    assert not any(world.database.of(user) for user in MANY)


def test_many_small_groups_that_are_empty_at_once_are_not_believed_either() -> None:
    rules = [ALL, *(AccountRule(account=f"a{number}", group=f"g{number}") for number in range(10))]
    groups = {f"g{number}": MANY[number : number + 1] for number in range(10)}
    world = World()
    world.round(rules, people(groups))
    made = world.round(rules, people(dict.fromkeys(groups, ()), users=MANY))
    assert (made.is_empty, len(made.held)) == (True, 10), "all who had an account by their group"


def test_a_rule_that_is_taken_away_is_a_word_and_no_loss() -> None:
    world = World()
    world.round([ALL, LAB], people({"ml": MANY}))
    made = world.round([LAB], people({"ml": MANY}))
    assert (made.held, len(made.removals[0].associations)) == ((), 10)


def test_what_was_removed_is_not_forgotten_over_a_loss_that_is_not_believed() -> None:
    world = World()
    world.round([LAB], people({"ml": MANY}))
    world.database.delete("u00", "lab")
    world.round([LAB], people({"ml": MANY}))
    world.round([LAB], people({"ml": []}, users=MANY))
    assert world.round([LAB], people({"ml": MANY})).withheld == (("u00", "lab"),)


def test_what_an_administrator_has_removed_is_not_given_again() -> None:
    world, who = World(), people({"ml": ["alice", "bob"]})
    world.round([LAB], who)
    world.database.delete("alice", "lab")
    for _ in range(3):
        made = world.round([LAB], who)
        assert (made.is_empty, made.withheld) == (True, (("alice", "lab"),))
    assert world.round([replace(LAB, qos=("low",))], who).additions == (), "nor if the rule says something else of it"


def test_what_was_removed_comes_back_when_the_user_does() -> None:
    world, who = World(), people({"ml": ["alice"]})
    world.round([LAB], who)
    world.database.delete("alice", "lab")
    world.round([LAB], who)
    world.round([LAB], people({"ml": []}, users=["alice"]))
    assert world.round([LAB], who).additions[0].users == ("alice",)


def test_what_an_administrator_has_added_and_removed_again_is_not_given() -> None:
    world, who = World(row("alice", "lab", is_default=True)), people({"ml": ["alice"]})
    world.round([LAB], who)
    world.database.delete("alice", "lab")
    assert world.round([LAB], who).is_empty


def test_a_new_database_is_filled_again() -> None:
    world, who = World(), people({"ml": ["alice"]})
    world.round([LAB], who)
    world.database = Database()
    made = world.round([LAB], who)
    assert (made.accounts, made.additions[0].users) == (("lab",), ("alice",))


def test_a_rule_that_says_other_qos_changes_what_is_ours() -> None:
    world, who = World(), people({"ml": ["alice", "bob"]})
    world.round([LAB], who)
    made = world.round([replace(LAB, qos=("low",), default_qos=None)], who)
    assert [each.associations.keys() for each in made.changes] == [{"alice", "bob"}]
    assert world.database.of("alice")["lab"].qos == ("3",)
    assert world.database.of("alice")["lab"].default_qos == 0
    world.round([AccountRule(account="lab", group="ml")], who)
    assert world.database.of("alice")["lab"].qos == ()


@pytest.mark.parametrize(
    "change",
    [
        {"qos": ("1",)},
        {"qos": ("1", "2", "+3")},
        {"is_limited": True},
        {"comment": "mine now"},
        {"comment": ""},
        {"comment": "sunk qos=high"},
        {"partition": "gpu"},
    ],
)
def test_what_an_administrator_has_changed_is_his(change: dict[str, object]) -> None:
    world = World()
    world.round([LAB], people({"ml": ["alice"]}))
    world.database.alter("alice", "lab", **change)
    before = dict(world.database.rows)
    world.round([replace(LAB, qos=("low",))], people({"ml": ["alice"]}))
    world.round([LAB], people({"ml": []}, users=["alice"]))
    assert world.database.rows == before


@pytest.mark.parametrize("account", ["physics department", "a'b", "", "x" * 200])
def test_an_account_that_no_rule_could_name_is_none_of_ours(account: str) -> None:
    """Such names are not sent to slurmdbd, and one of them must not hold up all others."""
    world = World(row("alice", account, comment="sunk"), row("bob", "lab", comment="sunk"))
    made = world.round([ALL], people({"ml": ["alice", "bob"]}))
    assert [each.account for each in made.removals] == ["lab"]


def test_one_for_a_partition_beside_ours_makes_both_the_administrators() -> None:
    """Because slurmdbd removes it together with ours."""
    world = World()
    world.round([LAB], people({"ml": ["alice"]}))
    world.database.insert(row("alice", "lab", partition="gpu"))
    assert world.round([LAB], people({"ml": []}, users=["alice"])).is_empty


def test_another_default_account_is_not_a_change() -> None:
    """Users may choose it themselves."""
    world, who = World(), people({"ml": ["alice"]})
    world.round([LAB, ALL], who)
    world.database.alter("alice", "lab", is_default=False)
    world.database.alter("alice", "guests", is_default=True)
    assert world.round([LAB, ALL], who).is_empty
    assert world.round([LAB, ALL], people({"ml": []}, users=["alice"])).removals[0].account == "lab"


def test_another_default_qos_is_not_a_change_either() -> None:
    """Users may choose it themselves, and must not keep an account that way."""
    world, who = World(), people({"ml": ["alice"]})
    world.round([LAB], who)
    world.database.alter("alice", "lab", default_qos=QOS["high"])
    assert world.round([LAB], who).is_empty
    assert world.database.of("alice")["lab"].default_qos == QOS["high"]
    assert world.round([LAB], people({"ml": []}, users=["alice"])).removals[0].account == "lab"


@pytest.mark.parametrize(("qos", "default"), [(("low",), "normal"), (("high", "low"), "high"), ((), "normal")])
def test_a_default_qos_that_a_user_has_chosen_stays_where_it_is_allowed(qos: tuple[str, ...], default: str) -> None:
    world, who = World(), people({"ml": ["alice"]})
    world.round([LAB], who)
    world.database.alter("alice", "lab", default_qos=QOS["high"])
    rule = replace(LAB, qos=qos)
    world.round([rule], who)
    made = world.database.of("alice")["lab"]
    assert made.default_qos == QOS[default]
    assert "default=normal" in made.comment, "what the rule says"
    assert world.round([rule], who).is_empty


def test_a_qos_that_does_not_exist_is_said_and_the_others_are_given() -> None:
    rule = replace(LAB, qos=("normal", "premium"), default_qos="premium")
    world = World()
    made = world.round([rule], people({"ml": ["alice"]}))
    assert world.database.of("alice")["lab"].comment == "sunk qos=normal"
    (problem,) = made.problems
    assert problem == (
        "accounting.userAccounts.rules[0].qos: slurmdbd has no QOS premium; the rest of the rule applies. "
        "Add it: sacctmgr add qos premium"
    )
    world.database.qos["premium"] = 9
    world.round([rule], people({"ml": ["alice"]}))
    assert world.database.of("alice")["lab"].comment == "sunk qos=normal,premium default=premium"


def test_a_default_qos_of_the_account_that_a_rule_does_not_allow_is_said() -> None:
    rule = replace(LAB, qos=("normal", "high"), default_qos=None)
    world, who = World(row("", "lab", default_qos=QOS["low"])), people({"ml": ["alice"]})
    (problem,) = world.round([ALL, rule], who).problems
    assert problem == (
        "accounting.userAccounts.rules[1].defaultQos: account lab has the default QOS low, which these users may not use, so "
        "their jobs have to name one. Set defaultQos to one of high, normal, or add low to qos"
    )
    for better in (
        replace(rule, default_qos="high"),
        replace(rule, qos=("normal", "low")),
        replace(rule, qos=()),
        replace(rule, group="nobody"),
    ):
        assert not [one for one in world.round([better], who).problems if "defaultQos" in one]
    # What another rule says for the same users counts too.
    assert world.round([rule, AccountRule(account="lab", qos=("low",))], who).problems == ()
    world.database.alter("", "lab", default_qos=QOS["high"])
    assert world.round([rule], who).problems == ()


def test_nobody_is_given_all_qos_of_the_account_because_the_rule_has_none_that_exists() -> None:
    rule = replace(LAB, qos=("premium",), default_qos=None)
    world = World()
    made = world.round([rule], people({"ml": ["alice"]}))
    assert made.is_empty
    assert "nobody is added by this rule" in made.problems[0]


def test_who_has_an_account_keeps_it_if_its_qos_are_deleted() -> None:
    rule = replace(LAB, qos=("high",), default_qos="high")
    world, who = World(), people({"ml": ["alice"]})
    world.round([rule], who)
    del world.database.qos["high"]
    world.database.alter("alice", "lab", qos=(), default_qos=0)  # as slurmdbd does it
    assert world.round([rule], who).is_empty
    world.round([LAB], who)
    assert world.database.of("alice")["lab"].comment == "sunk qos=normal default=normal", "it is still ours"


def test_qos_of_several_rules_for_one_account_add_up() -> None:
    rules = [
        AccountRule(account="lab"),
        AccountRule(account="lab", group="a", qos=("normal",)),
        AccountRule(account="lab", group="b", qos=("low",), default_qos="high"),
    ]
    world = World()
    world.round(rules, people({"a": ["alice"], "b": ["alice", "bob"]}, users=["carol"]))
    assert world.database.of("alice")["lab"].comment == "sunk qos=high,low,normal default=high"
    assert world.database.of("bob")["lab"].comment == "sunk qos=high,low default=high"
    assert world.database.of("carol")["lab"].comment == "sunk"


def test_who_is_new_waits() -> None:
    who = people({"ml": ["alice", "bob"]})
    made = plan([LAB], who, Database().found(), settled={"bob"})
    assert made.additions[0].users == ("bob",)
    assert made.arriving == (("alice", "lab"),)


def test_names_of_slurmdbd_are_compared_without_their_case() -> None:
    world = World(row("Alice", "LAB", is_default=True))
    assert plan([LAB], people({"ml": ["alice"]}), world.database.found()).additions == ()


def test_without_rules_nothing_of_others_is_touched() -> None:
    world = World(row("alice", "lab", is_default=True))
    made = world.round([], people({"ml": ["alice"]}))
    assert (made.is_empty, made.served) == (True, frozenset())


@given(
    st.lists(st.sampled_from("abc"), max_size=3, unique=True).map(sorted).map(tuple),
    st.sampled_from(["", "a", "high-prio.1"]),
)
def test_a_mark_says_what_was_given(qos: tuple[str, ...], default: str) -> None:
    names = UserQosNames(qos=qos, default=default)
    assert marked(names.mark) == names


@pytest.mark.parametrize(
    "comment", ["", "SUNK", "sunk!", "sunkqos=a", "sunk qos=", "sunk qos=a;drop", "by sunk", "sunk  qos=a"]
)
def test_other_comments_are_no_marks(comment: str) -> None:
    assert marked(comment) is None
    assert not ours([row("alice", "lab", comment=comment)], qos=QOS)


USERS = ("alice", "bob", "carol")
ACCOUNTS = ("lab", "guests", "physics")
GROUPS = ("ml", "bio")
a_rule = st.builds(
    AccountRule,
    account=st.sampled_from(ACCOUNTS),
    group=st.sampled_from(("", *GROUPS, "none")),
    qos=st.lists(st.sampled_from(("normal", "high", "low", "missing")), max_size=2, unique=True).map(tuple),
    default_qos=st.sampled_from((None, "normal", "missing")),
)
some_rules = st.lists(a_rule, max_size=4)
some_people = st.builds(
    lambda groups, users, complete: people(groups, users=users, complete=complete),
    st.dictionaries(st.sampled_from(GROUPS), st.lists(st.sampled_from(USERS), unique=True)),
    st.lists(st.sampled_from(USERS), unique=True),
    st.booleans(),
)
a_row = st.builds(
    row,
    st.sampled_from(USERS),
    st.sampled_from(ACCOUNTS),
    partition=st.sampled_from(("", "gpu")),
    comment=st.sampled_from(("", "project", "sunk", "sunk qos=high", "sunk qos=missing")),
    qos=st.sampled_from(((), ("2",), ("1", "2"), ("+2",))),
    is_limited=st.booleans(),
    default_qos=st.sampled_from((0, 2)),
)
some_rows = st.lists(a_row, max_size=5, unique_by=lambda each: (each.user, each.account, each.partition))


def filled(rows: Iterable[Association]) -> World:
    """With a default account for each, as slurmdbd sees to."""
    seen: set[str] = set()
    made = []
    for each in rows:
        made.append(replace(each, is_default=each.user not in seen))
        seen.add(each.user)
    return World(*made)


def foreign(world: World) -> dict[int, Association]:
    pairs = world.database.found().by_pair()
    theirs = [each for rows in pairs.values() if not ours(rows, qos=world.database.qos) for each in rows]
    # Which account is the default may move on when another one goes.
    return {each.id: replace(each, is_default=False) for each in theirs}


@settings(max_examples=100)
@given(some_rows, st.lists(st.tuples(some_rules, some_people), min_size=1, max_size=4))
def test_whatever_happens_what_is_not_ours_stays_as_it_is(
    rows: list[Association], rounds: list[tuple[list[AccountRule], People]]
) -> None:
    world = filled(rows)
    for rules, who in rounds:
        before = foreign(world)
        world.round(rules, who)
        after = {number: replace(each, is_default=False) for number, each in world.database.rows.items()}
        assert before.items() <= after.items()


@settings(max_examples=100)
@given(some_rows, st.lists(st.tuples(some_rules, some_people), min_size=1, max_size=4))
def test_one_round_is_enough(rows: list[Association], rounds: list[tuple[list[AccountRule], People]]) -> None:
    world = filled(rows)
    for rules, who in rounds:
        world.round(rules, who)
        served = world.served
        again = world.round(rules, who)
        assert again.is_empty, again
        assert world.served == served
        for user in who.users:
            owned = [each for each in world.database.rows.values() if each.user == user]
            assert not owned or any(each.is_default for each in owned), "nobody is left without a default"


@settings(max_examples=100)
@given(some_rows, some_rules, some_people, st.sampled_from(USERS), st.sampled_from(ACCOUNTS))
def test_what_somebody_removes_stays_removed(
    rows: list[Association], rules: list[AccountRule], who: People, user: str, account: str
) -> None:
    world = filled(rows)
    world.round(rules, who)
    made = world.round(rules, who)
    if account not in world.database.of(user) or (user, account) not in made.served:
        return
    world.database.delete(user, account)
    for _ in range(2):
        world.round(rules, who)
        assert account not in world.database.of(user)
