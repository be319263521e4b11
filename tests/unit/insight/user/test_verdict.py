"""Why a login or a job is refused."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from rich.console import Console

from sunk.insight.user.job import job
from sunk.insight.user.login import login
from sunk.insight.user.page import draw
from sunk.insight.user.person import VALUES, Group, Person, SshKey
from sunk.insight.user.reading import Finding, first_line, not_running, sampled
from sunk.insight.user.rules import enforced, rules_for
from sunk.insight.user.situation import Situation, Verdict
from sunk.insight.user.slurm import UNKNOWN_UID, Association, Job, Partition, PodView, Qos, SlurmView
from sunk.kube.core import Pod
from sunk.model import names
from sunk.model.cluster.daemons import Accounting
from sunk.model.cluster.kind import SlurmClusterSpec
from sunk.model.contract.people import DirectoryReport, PeopleReport

KEY = SshKey("ssh-ed25519", "SHA256:x", source="campus")
BOB = Person(  # noqa: S604 - no process
    "bob",
    uid=3001,
    gid=3000,
    gecos="",
    home="/home/bob",
    shell="/bin/bash",
    source="campus",
    groups=(Group("science", 3000, primary=True),),
    keys=(KEY,),
)
AVAILABLE = DirectoryReport("campus", state="Available", users=3)
LOGIN = PodView("slurm-login-0", "login", known=True, uid=3001, has_shell=True)
CONTROLLER = PodView("slurm-controller-x", "controller", known=True, uid=3001)
SLURM = SlurmView(
    associations=(Association("science", qos=("normal",)),),
    default_account="science",
    jobs=(),
    partitions=(Partition("all"),),
    parents={"science": "root", "lab": "root"},
    uid=3001,
)


def spec(**values: Any) -> SlurmClusterSpec:
    directories = [{"name": "campus", "ldapUri": "ldaps://ldap.example.com"}]
    given = {"directoryService": {"directories": directories}} | values
    return msgspec.convert(given, SlurmClusterSpec)


def situation(person: Person | None = BOB, *, values: dict[str, Any] | None = None, **more: Any) -> Situation:
    wanted = spec(**(values or {}))
    slurm = more.pop("slurm", SLURM)
    told = more.pop("directories", (AVAILABLE,))
    given: dict[str, Any] = {
        "report": None if told is None else PeopleReport(directories=told),
        "pods": (LOGIN, CONTROLLER),
        "slurm": slurm,
        "rules": rules_for(person, wanted.accounting, slurm),
    }
    return Situation("bob", cluster="slurm", spec=wanted, person=person, **(given | more))


def why(verdict: Verdict) -> str:
    return "\n".join(one.text for one in verdict.reasons if one.refuses)


def notes(verdict: Verdict) -> str:
    return "\n".join(one.text for one in verdict.reasons)


def test_nothing_speaks_against_a_known_user() -> None:
    seen = situation()
    assert login(seen) == Verdict(allowed=True)
    assert job(seen) == Verdict(allowed=True)


# Who is not known


def test_a_user_of_no_directory_is_unknown() -> None:
    verdict = login(situation(None))
    assert verdict.allowed is False
    assert "neither the values nor a directory (campus) have a user bob" in why(verdict)
    assert job(situation(None)).allowed is False


def test_without_directories_the_values_are_named() -> None:
    verdict = login(situation(None, values={"directoryService": {}}, directories=None))
    assert "no directory is enabled" in why(verdict)
    assert "users.passwd" in verdict.reasons[0].advice


def test_a_directory_that_is_disabled_is_not_asked_about() -> None:
    values = {"directoryService": {"directories": [{"name": "campus", "enabled": False}]}}
    assert "no directory is enabled" in why(login(situation(None, values=values, directories=None)))


def test_an_entry_that_is_left_out_is_told_with_its_reason() -> None:
    told = replace(
        AVAILABLE, skipped=2, examples=("uid=bobby,dc=x: no uidNumber", "uid=bob,dc=x: the uid 0 is reserved")
    )
    text = why(login(situation(None, directories=(told,))))
    assert "the uid 0 is reserved" in text
    assert "bobby" not in text


@pytest.mark.parametrize(
    "example", ["group bob: no gidNumber", "user carol: bob has the uid 3001", "user bob2: no uid"]
)
def test_an_example_about_somebody_else_is_not_taken_for_the_user(example: str) -> None:
    told = replace(AVAILABLE, skipped=1, examples=(example,))
    assert example not in why(login(situation(None, directories=(told,))))


def test_entries_that_are_left_out_and_not_listed_are_counted() -> None:
    told = replace(AVAILABLE, skipped=12, examples=("uid=x: y",))
    assert "12 entries are left out" in why(login(situation(None, directories=(told,))))


@pytest.mark.parametrize("state", ["Unreachable", "Refused", "Invalid", "Suspect"])
def test_a_directory_that_is_down_cannot_bring_somebody_new(state: str) -> None:
    told = DirectoryReport("campus", state=state, message="user.password: wrong")
    verdict = login(situation(None, directories=(told,)))
    assert f"directory campus is {state} (user.password: wrong). bob was not among its users" in why(verdict)
    assert verdict.reasons[0].advice


def test_an_agent_that_has_said_nothing_is_named() -> None:
    assert "has not reported" in why(login(situation(None, directories=None)))
    assert "has not read directory campus yet" in why(login(situation(None, directories=())))


def test_nobody_is_called_unknown_by_files_that_were_not_read() -> None:
    seen = situation(None, people_seen=False)
    assert login(seen).allowed is None
    assert job(seen).allowed is None


# Login


def test_a_locked_account_is_refused() -> None:
    verdict = login(situation(replace(BOB, expired=True)))
    assert "locked or has expired" in why(verdict)
    assert "directory campus" in verdict.reasons[0].advice


@pytest.mark.parametrize("shell", ["/usr/sbin/nologin", "/bin/false"])
def test_a_shell_that_ends_sessions_is_told(shell: str) -> None:
    assert shell in why(login(situation(replace(BOB, shell=shell))))


def test_a_shell_that_the_image_does_not_have_is_told() -> None:
    pods = (replace(LOGIN, has_shell=False), CONTROLLER)
    assert "no /bin/bash" in why(login(situation(pods=pods)))


def test_without_a_key_there_is_the_password() -> None:
    verdict = login(situation(replace(BOB, keys=())))
    assert verdict.allowed is True
    assert "by password only" in notes(verdict)


def test_neither_key_nor_password() -> None:
    verdict = login(situation(replace(BOB, keys=(), source=VALUES)))
    assert verdict.allowed is False
    assert "users of the values have no password" in why(verdict)
    assert "users.authorizedKeys.bob" in verdict.reasons[0].advice


def test_no_password_is_sent_unencrypted() -> None:
    plain = {"directories": [{"name": "campus", "ldapUri": "ldap://x", "startTLS": False, "sshKeyAttr": "key"}]}
    nobody = replace(BOB, keys=())
    verdict = login(situation(nobody, values={"directoryService": plain}, passwords={"campus": "plain"}))
    assert "startTLS: false" in why(verdict)
    assert "attribute key" in verdict.reasons[0].advice


def test_no_password_is_checked_by_a_directory_that_logins_cannot_find() -> None:
    assert "ldapUri has to be in the values" in why(login(situation(replace(BOB, keys=()), passwords={})))
    assert login(situation(replace(BOB, keys=()), passwords={"campus": "tls"})).allowed is True


def test_a_directory_without_a_name_is_the_default_one() -> None:
    values: dict[str, Any] = {"directoryService": {"directories": [{}]}}
    told = DirectoryReport("default", state="Available")
    assert "a directory (default) have" in why(login(situation(None, values=values, directories=(told,))))


def test_a_directory_that_is_down_checks_no_password() -> None:
    told = (DirectoryReport("campus", state="Unreachable"),)
    by_key = login(situation(directories=told))
    assert by_key.allowed is True
    assert "by key only" in notes(by_key)
    assert login(situation(replace(BOB, keys=()), directories=told)).allowed is False


def test_a_namesake_in_another_directory_is_told() -> None:
    other = DirectoryReport("labs", state="Available", examples=("uid=bob,o=labs: campus has a user of this name",))
    verdict = login(situation(directories=(AVAILABLE, other)))
    assert verdict.allowed is True
    assert "directory labs has an entry of this name too" in notes(verdict)


def test_login_pods_that_do_not_know_the_user_yet() -> None:
    late = PodView("slurm-login-1", "login", known=False)
    one_of_two = login(situation(pods=(LOGIN, late, CONTROLLER)))
    assert one_of_two.allowed is True
    assert "not known yet in slurm-login-1" in notes(one_of_two)
    assert login(situation(pods=(late, CONTROLLER))).allowed is False


def test_a_login_pod_with_another_uid_is_told() -> None:
    assert "3999 instead of 3001" in notes(login(situation(pods=(replace(LOGIN, uid=3999), CONTROLLER))))


def test_login_pods_that_could_not_be_asked_leave_it_open() -> None:
    blind = PodView("slurm-login-0", "login", trouble="you may not")
    verdict = login(situation(pods=(blind, CONTROLLER)))
    assert verdict.allowed is None
    assert "you may not" in notes(verdict)
    assert login(situation(pods=())).allowed is None


@pytest.mark.parametrize("wanted", [{"enabled": False}, {"replicas": 0}])
def test_without_login_pods_nobody_gets_in(wanted: dict[str, Any]) -> None:
    assert "no login Pods" in why(login(situation(values={"login": wanted})))


# Jobs


def test_no_association_is_refused_where_that_is_enforced() -> None:
    empty = replace(SLURM, associations=())
    text = why(job(situation(slurm=empty)))
    assert "has no association" in text
    assert "has no rules" in text
    assert job(situation(slurm=empty, values={"accounting": {"enforce": ""}})).allowed is True


def test_a_rule_that_has_not_been_followed_yet_is_named() -> None:
    rules = [{"account": "staff", "group": "staff"}, {"account": "guests"}]
    values = {"accounting": {"userAccounts": {"rules": rules}}}
    verdict = job(situation(slurm=replace(SLURM, associations=()), values=values))
    assert "accounting.userAccounts.rules[1] gives account guests" in why(verdict)
    assert "slurm-syncer" in verdict.reasons[0].advice


def test_rules_that_do_not_apply_are_told() -> None:
    values = {"accounting": {"userAccounts": {"rules": [{"account": "staff", "group": "staff"}]}}}
    assert "No rule of accounting.userAccounts applies" in why(
        job(situation(slurm=replace(SLURM, associations=()), values=values))
    )


def test_a_second_account_that_is_missing_is_only_noted() -> None:
    values = {"accounting": {"userAccounts": {"rules": [{"account": "science"}, {"account": "extra"}]}}}
    verdict = job(situation(values=values))
    assert verdict.allowed is True
    assert "account extra of accounting.userAccounts.rules[1]" in notes(verdict)


def test_rules_by_group() -> None:
    accounting = msgspec.convert(
        {
            "userAccounts": {
                "rules": [{"account": "a", "group": "science"}, {"account": "b", "group": "x"}, {"account": "c"}]
            }
        },
        Accounting,
    )
    found = rules_for(BOB, accounting, replace(SLURM, associations=(Association("a"),)))
    assert [(one.applies, one.made) for one in found] == [(True, True), (False, None), (True, False)]
    assert not any(one.applies for one in rules_for(None, accounting, SLURM))
    assert {one.made for one in rules_for(BOB, accounting, SlurmView())} == {None}


@pytest.mark.parametrize(
    ("enforce", "enabled", "wanted"),
    [("associations,limits,qos", True, True), ("safe", True, True), ("", True, False), ("associations", False, False)],
)
def test_when_an_association_is_needed(enforce: str, enabled: bool, wanted: bool) -> None:  # noqa: FBT001 - columns
    assert enforced(msgspec.convert({"enforce": enforce, "enabled": enabled}, Accounting)) is wanted


def test_slurmctld_that_does_not_know_the_user_refuses() -> None:
    verdict = job(situation(pods=(LOGIN, replace(CONTROLLER, known=False))))
    assert "slurmctld does not know bob yet" in why(verdict)


def test_an_association_without_its_uid_is_found() -> None:
    verdict = job(situation(slurm=replace(SLURM, uid=UNKNOWN_UID)))
    assert "before it knew the uid" in why(verdict)
    assert "scontrol reconfigure" in verdict.reasons[0].advice


def test_a_slurmctld_that_is_down_leaves_it_open() -> None:
    down = PodView("slurm-controller-x", "controller", trouble="container slurmctld does not run (Pod is Pending)")
    verdict = job(situation(pods=(LOGIN, down), slurm=SlurmView()))
    assert verdict.allowed is None
    assert "does not run" in notes(verdict)
    assert "it has no Pod" in notes(job(situation(pods=(LOGIN,), slurm=SlurmView())))


def test_without_accounting_nobody_needs_an_association() -> None:
    off = {"accounting": {"enabled": False}}
    assert job(situation(values=off, slurm=replace(SLURM, associations=None))).allowed is True


def test_accounts_in_which_no_job_is_allowed() -> None:
    none = replace(SLURM, associations=(Association("science", limits={"MaxSubmit": "0"}),))
    assert "no job is allowed (MaxSubmit=0)" in why(job(situation(slurm=none)))


def test_a_default_qos_that_is_not_allowed_is_told() -> None:
    odd = replace(SLURM, associations=(Association("science", qos=("normal",), default_qos="long"),))
    assert "default QOS long is not among" in notes(job(situation(slurm=odd)))


def test_partitions_that_are_closed_to_the_user() -> None:
    gpu = Partition("gpu", groups=("ml",))
    assert job(situation(slurm=replace(SLURM, partitions=(Partition("all"), gpu)))).allowed is True
    only = job(situation(slurm=replace(SLURM, partitions=(gpu,))))
    assert "partition gpu is closed: it is for groups ml" in why(only)


@pytest.mark.parametrize(
    ("partition", "part"),
    [
        (Partition("p", accounts=("lab",)), "for accounts lab"),
        (Partition("p", denied_accounts=("science",)), "not for accounts science"),
        (Partition("p", state="DRAIN"), "its state is DRAIN"),
        (Partition("p", state="INACTIVE"), "its state is INACTIVE"),
        (Partition("p", qos=("long", "high")), "for QOS long, high"),
        (Partition("p", denied_qos=("normal", "low")), "not for QOS normal, low"),
    ],
)
def test_why_a_partition_is_closed(partition: Partition, part: str) -> None:
    assert part in why(job(situation(slurm=replace(SLURM, partitions=(partition,)))))


def test_a_partition_that_is_down_takes_jobs_and_starts_none() -> None:
    down = job(situation(slurm=replace(SLURM, partitions=(Partition("p", state="DOWN"), Partition("all")))))
    assert (down.allowed, notes(down)) == (True, "partition p is DOWN: jobs wait there until it is UP")
    # Whom it does not let in is told first.
    other = job(situation(slurm=replace(SLURM, partitions=(Partition("p", state="DOWN", groups=("ml",)),))))
    assert why(other) == "partition p is closed: it is for groups ml"


def test_an_account_below_one_that_is_allowed_is_allowed() -> None:
    """Slurm's lists of accounts include those below."""
    below = replace(
        SLURM, parents={"science": "campus", "campus": "root"}, partitions=(Partition("p", accounts=("campus",)),)
    )
    assert job(situation(slurm=below)) == Verdict(allowed=True)
    denied = replace(below, partitions=(Partition("p", denied_accounts=("campus",)),))
    assert "not for accounts campus" in why(job(situation(slurm=denied)))
    around = replace(
        below, parents={"science": "campus", "campus": "science"}, partitions=(Partition("p", accounts=("x",)),)
    )
    assert job(situation(slurm=around)).allowed is False


def test_where_the_accounts_above_were_not_seen_a_partition_may_be_open() -> None:
    blind = replace(SLURM, parents=None, partitions=(Partition("p", accounts=("campus",)),))
    verdict = job(situation(slurm=blind))
    assert (verdict.allowed, why(verdict)) == (None, "")
    assert "partition p is for accounts campus" in notes(verdict)
    assert (
        job(situation(slurm=replace(blind, partitions=(*(blind.partitions or ()), Partition("all"))))).allowed is True
    )


def test_what_somebody_has_removed_is_not_said_to_come() -> None:
    rules = [{"account": "science"}, {"account": "extra"}]
    values = {"accounting": {"userAccounts": {"rules": rules}}}
    given = spec(**values).accounting
    second = rules_for(BOB, given, SLURM, noted={"science", "extra"})
    assert [one.removed for one in second] == [False, True]
    verdict = job(situation(values=values, rules=second))
    assert "account extra of accounting.userAccounts.rules[1] is not there: somebody has removed it" in notes(verdict)
    assert "the syncer creates it" not in notes(verdict)
    none = replace(SLURM, associations=())
    verdict = job(situation(values=values, slurm=none, rules=rules_for(BOB, given, none, noted={"science", "extra"})))
    assert "rules[0] gives account science, but somebody has removed it" in why(verdict)
    assert "sacctmgr -i add user bob account=science" in verdict.reasons[0].advice


def test_another_rule_may_still_give_an_account() -> None:
    values = {"accounting": {"userAccounts": {"rules": [{"account": "science"}, {"account": "extra"}]}}}
    none = replace(SLURM, associations=())
    rules = rules_for(BOB, spec(**values).accounting, none, noted={"science"})
    assert "rules[1] gives account extra, which the syncer has not created yet" in why(
        job(situation(values=values, slurm=none, rules=rules))
    )


def test_a_default_account_that_was_not_seen_is_not_called_missing() -> None:
    assert "default account" in notes(job(situation(slurm=replace(SLURM, default_account=""))))
    assert job(situation(slurm=replace(SLURM, default_account=None))) == Verdict(allowed=True)


def test_an_association_that_slurmctld_was_not_told_of_does_not_help() -> None:
    verdict = job(situation(slurm=replace(SLURM, uid=None, in_slurmctld=False)))
    assert "slurmctld does not have the association of bob" in why(verdict)
    assert job(situation(slurm=replace(SLURM, uid=None, in_slurmctld=None))) == Verdict(allowed=True), "not seen"


def test_a_partition_that_is_denied_to_accounts_may_be_denied_to_those_below() -> None:
    blind = replace(SLURM, parents=None, partitions=(Partition("p", denied_accounts=("campus",)),))
    assert job(situation(slurm=blind)).allowed is None


def test_another_uid_in_slurmctld_refuses() -> None:
    verdict = job(situation(slurm=replace(SLURM, uid=3999)))
    assert "slurmctld has uid 3999 for bob instead of 3001" in why(verdict)
    assert "scontrol reconfigure" in verdict.reasons[0].advice


def test_jobs_that_wait_are_told_by_their_reason() -> None:
    waiting = tuple(
        Job(str(number), "PENDING", "all", "science", "normal", "1", "0:00", "1:00", "QOSMaxJobsPerUserLimit")
        for number in range(5)
    )
    text = notes(job(situation(slurm=replace(SLURM, jobs=waiting))))
    assert "5 jobs (0, 1, 2, …) pending: QOSMaxJobsPerUserLimit: a limit of its QOS" in text


# The page and the Pods


def finding(seen: Situation, **more: Any) -> Finding:
    given: dict[str, Any] = {"agent": True, "unseen": ()}
    return Finding(
        name=seen.name,
        cluster=seen.cluster,
        namespace="team",
        person=seen.person,
        report=seen.report,
        pods=seen.pods,
        slurm=seen.slurm,
        rules=seen.rules,
        login=login(seen),
        job=job(seen),
        **(given | more),
    )


def page(found: Finding) -> str:
    screen = Console(width=200, highlight=False)
    with screen.capture() as captured:
        screen.print(draw(found, now=datetime(2026, 1, 1, tzinfo=UTC)))
    return captured.get()


def test_the_page_has_everything() -> None:
    busy = replace(
        SLURM,
        jobs=(Job("7", "RUNNING", "all", "science", "normal", "2", "1:00", "2:00", "None"),),
        qos=(Qos("normal", limits={"MaxJobsPU": "3"}),),
    )
    values = {"accounting": {"userAccounts": {"rules": [{"account": "science", "group": "science"}]}}}
    text = page(finding(situation(replace(BOB, sudo=("science",)), slurm=busy, values=values)))
    for part in (
        "bob in SlurmCluster team/slurm",
        "uid 3001, from directory campus",
        "home /home/bob, shell /bin/bash",
        "science (3000)",
        "yes, by science",
        "ssh-ed25519 SHA256:x",
        "campus: Available, 3 users",
        "science (default): QOS normal",
        "normal, MaxJobsPU=3",
        "rules[0]: group science → science: applies",
        "RUNNING",
        "Known in",
    ):
        assert part in text
    assert "What you can do" not in text


def test_the_page_of_somebody_unknown_says_what_was_not_seen() -> None:
    text = page(finding(situation(None), agent=False, unseen=("ConfigMap x: you may not read it",)))
    for part in ("unknown", "refused", "does not run", "Not seen", "you may not read it", "What you can do"):
        assert part in text


def test_what_people_write_does_not_steer_the_terminal() -> None:
    hostile = "\x1b[2Jowned\r\n"
    evil = replace(BOB, home=hostile, dn=hostile, keys=(replace(KEY, comment=hostile),))
    told = DirectoryReport("campus", state="Invalid", message=hostile, examples=(f"bob {hostile}",))
    views = (replace(LOGIN, known=None, trouble=hostile), CONTROLLER)
    text = page(finding(situation(evil, directories=(told,), pods=views), unseen=(hostile,)))
    assert "\x1b" not in text
    assert "\r" not in text


def test_a_finding_is_json() -> None:
    text = msgspec.json.encode(finding(situation()))
    found = msgspec.json.decode(text)
    assert found["login"] == {"allowed": True, "reasons": []}
    assert found["person"]["keys"][0]["fingerprint"] == "SHA256:x"


def pod(name: str, component: str, *, running: bool = True, labels: dict[str, str] | None = None) -> Pod:
    container = {"controller": "slurmctld", "login": "sshd", "compute": "slurmd"}.get(component, "other")
    state = {"running": {}} if running else {"waiting": {"reason": "ImagePullBackOff"}}
    told = {"name": name, "namespace": "team", "labels": {names.COMPONENT: component} | (labels or {})}
    statuses = [{"name": container, "state": state}]
    return msgspec.convert(
        {"metadata": told, "status": {"phase": "Running" if running else "Pending", "containerStatuses": statuses}}, Pod
    )


def test_some_compute_pods_are_asked_unless_all_are_to_be() -> None:
    nodes = [pod(f"n{number}", "compute", running=number > 3) for number in range(9)]
    others = [pod("c", "controller"), pod("l", "login"), pod("db", "mysql"), pod("s", "syncer")]
    probe = pod("trial", "controller", labels={names.PROBE: "slurm"})
    assert [one.metadata.name for one in sampled([*nodes, *others, probe], all_pods=False)] == [
        "c",
        "l",
        "n4",
        "n5",
        "n6",
    ]
    assert len(sampled([*nodes, *others], all_pods=True)) == 11


def test_a_pod_that_does_not_run_is_not_asked() -> None:
    assert not_running(pod("c", "controller")) == ""
    assert "slurmctld does not run (Pod is Pending)" in not_running(pod("c", "controller", running=False))


def test_the_first_line_of_an_error() -> None:
    assert first_line("\n  sacctmgr: error: x \nmore") == "sacctmgr: error: x"
    assert first_line("") == ""
