"""Why a login or a job of a person is refused, in plain words, and what to do about it.

A verdict is given for what was seen. Where something could not be seen, and nothing else decides, there is none.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from sunk.insight.user.person import VALUES, Person
from sunk.insight.user.reasons import told_of
from sunk.insight.user.rules import RuleView, enforced
from sunk.insight.user.slurm import UNKNOWN_UID, Job, Partition, PodView, SlurmView
from sunk.model.cluster.directory import Directory
from sunk.model.cluster.kind import SlurmClusterSpec
from sunk.model.contract import clusterobjects, people
from sunk.model.contract.people import DirectoryReport, PeopleReport
from sunk.model.wording import counted

LOGIN: Final = "login"
CONTROLLER: Final = "controller"
"""Components, as Pods are labelled with."""
_NO_SHELLS: Final = frozenset({"/usr/sbin/nologin", "/sbin/nologin", "/bin/false", "/usr/bin/false"})
_BY_CONFIG_MAP: Final = "Kubelets bring new users to Pods within about a minute"


class Situation(Struct, frozen=True):
    """Everything that was seen about one name."""

    name: str
    cluster: str
    spec: SlurmClusterSpec
    person: Person | None = None
    people_seen: bool = True
    """Whether the files with users could be read."""
    passwords: dict[str, str] | None = None
    """By directory: `tls`, `starttls` or `plain`, as logins are told. None: not known."""
    report: PeopleReport | None = None
    pods: tuple[PodView, ...] = ()
    slurm: SlurmView = SlurmView()
    rules: tuple[RuleView, ...] = ()

    @property
    def directories(self) -> tuple[Directory, ...]:
        return tuple(one for one in self.spec.directory_service.directories if one.enabled)

    @property
    def directory_names(self) -> tuple[str, ...]:
        return tuple(name_of(one) for one in self.directories)

    def state_of(self, directory: str) -> DirectoryReport | None:
        told = self.report.directories if self.report else ()
        return next((one for one in told if one.name == directory), None)

    def of(self, component: str) -> tuple[PodView, ...]:
        return tuple(pod for pod in self.pods if pod.component == component)


def name_of(directory: Directory) -> str:
    return directory.name or Directory().name


class Reason(Struct, frozen=True, omit_defaults=True):
    """One thing that matters. `refuses` if it alone is enough for a refusal."""

    text: str
    refuses: bool = False
    advice: str = ""


class Verdict(Struct, frozen=True):
    allowed: bool | None
    """None: it cannot be told."""
    reasons: tuple[Reason, ...] = ()

    @property
    def text(self) -> str:
        return {True: "nothing speaks against it", False: "refused", None: "cannot be told"}[self.allowed]


def login(seen: Situation) -> Verdict:
    """Whether the person gets in by ssh."""
    if not seen.spec.login.enabled or not seen.spec.login.replicas:
        return _verdict([Reason("the cluster has no login Pods", refuses=True, advice="Set login.enabled: true")])
    if seen.person is None:
        return _unknown(seen)
    return _verdict(
        [*_account(seen.person), *_namesakes(seen), *_proof(seen, seen.person), *_login_pods(seen, seen.person)],
        blind=not any(pod.known for pod in seen.of(LOGIN)),
    )


def job(seen: Situation) -> Verdict:
    """Whether Slurm takes a job of the person."""
    if seen.person is None:
        return _unknown(seen)
    reasons = [*_known_to_slurmctld(seen), *_association(seen), *_partitions(seen, seen.person), *_pending(seen)]
    unanswered = not any(pod.known for pod in seen.of(CONTROLLER)) or seen.slurm.partitions is None
    return _verdict(reasons, blind=unanswered or (enforced(seen.spec.accounting) and seen.slurm.associations is None))


def _verdict(reasons: Iterable[Reason], *, blind: bool = False) -> Verdict:
    found = tuple(dict.fromkeys(reasons))
    refused = any(one.refuses for one in found)
    return Verdict(False if refused else None if blind else True, found)


# Who is not known


def _unknown(seen: Situation) -> Verdict:
    if not seen.people_seen:
        return Verdict(None, (Reason("the users of the cluster could not be read"),))
    found = tuple(dict.fromkeys(_why_unknown(seen)))
    return Verdict(allowed=False, reasons=found)


def _why_unknown(seen: Situation) -> Iterator[Reason]:
    name = seen.name
    if not seen.directories:
        why = f"{name} is not among the users of the values, and no directory is enabled"
        yield Reason(why, refuses=True, advice="Add the user to users.passwd, or a directory to directoryService")
        return
    skipped = [
        Reason(
            f"directory {directory} has the user, but the entry is left out: {example}",
            refuses=True,
            advice=f"Correct the entry in directory {directory}",
        )
        for directory, example in _skipped(seen)
    ]
    yield from skipped
    down = [*_not_read(seen)]
    yield from down
    if not skipped and not down:
        yield _in_no_directory(seen)


def _skipped(seen: Situation) -> Iterator[tuple[str, str]]:
    """Entries with this name that the agent has left out, among those that it names as examples, by directory."""
    named = re.compile(rf"(?<![\w.-]){re.escape(seen.name)}(?![\w.-])", re.IGNORECASE)
    for told in seen.report.directories if seen.report else ():
        yield from ((told.name, example) for example in told.examples if named.search(example))


def _not_read(seen: Situation) -> Iterator[Reason]:
    if seen.report is None:
        yield Reason(
            "the directory agent has not reported anything yet",
            refuses=True,
            advice=f"kubectl logs deploy/{clusterobjects.named(seen.cluster, people.AGENT)}",
        )
        return
    for name in seen.directory_names:
        told = seen.state_of(name)
        if told is None:
            yield Reason(
                f"the directory agent has not read directory {name} yet",
                refuses=True,
                advice=f"kubectl logs deploy/{clusterobjects.named(seen.cluster, people.AGENT)}",
            )
        elif told.state != people.AVAILABLE:
            yield Reason(
                f"directory {name} is {told.state}{_because(told.message)}. {seen.name} was not among its users when "
                "it was last read",
                refuses=True,
                advice=_repair(told),
            )


def _in_no_directory(seen: Situation) -> Reason:
    text = f"neither the values nor a directory ({', '.join(seen.directory_names)}) have a user {seen.name}"
    left_out = sum(one.skipped for one in seen.report.directories) if seen.report else 0
    if left_out:
        text += f". {'1 entry is' if left_out == 1 else f'{left_out} entries are'} left out, and at most ten of them are listed"
    return Reason(
        text,
        refuses=True,
        advice="Check that the entry is below the search base, has the object class of users, a uid and a gid",
    )


def _repair(told: DirectoryReport) -> str:
    match told.state:
        case people.UNREACHABLE:
            return f"Check that the cluster reaches directory {told.name}, and that it runs"
        case people.REFUSED:
            return f"Check bind DN, password and certificates of directory {told.name}"
        case people.SUSPECT:
            return f"Check the canary and the search base of directory {told.name}"
    return f"Correct the values of directory {told.name}"


def _because(text: str) -> str:
    return f" ({text})" if text else ""


# Login


def _account(person: Person) -> Iterator[Reason]:
    if person.expired:
        where = f"directory {person.source}" if person.from_directory else "the users of the values"
        yield Reason("the account is locked or has expired", refuses=True, advice=f"Unlock it in {where}")
    if person.shell in _NO_SHELLS:
        yield Reason(f"the shell is {person.shell}, which ends every session", refuses=True)


def _namesakes(seen: Situation) -> Iterator[Reason]:
    for directory, example in _skipped(seen):
        yield Reason(f"directory {directory} has an entry of this name too, which is left out: {example}")


def _proof(seen: Situation, person: Person) -> Iterator[Reason]:
    """How somebody could prove to be this person: keys, and a password unless something is in its way."""
    no_password = _no_password(seen, person)
    if person.keys:
        if person.from_directory and no_password:
            yield Reason(f"by key only: {no_password}")
        return
    if no_password:
        yield Reason(
            f"no SSH key is known, and {no_password}. Only a key in {person.home}/.ssh/authorized_keys would do",
            refuses=True,
            advice=_give_key(person, seen),
        )
    else:
        yield Reason("by password only: no SSH key is known")


def _no_password(seen: Situation, person: Person) -> str:
    """Why a password does not help; empty if it does."""
    if person.source == VALUES:
        return "users of the values have no password"
    if not person.source:
        return "it is not known which directory would check a password"
    directory, told = person.source, seen.state_of(person.source)
    if seen.passwords is not None:
        match seen.passwords.get(directory):
            case "plain":
                return f"directory {directory} is not sent passwords, because its connection is unencrypted (startTLS: false)"
            case None:
                return f"logins are not told where directory {directory} is: ldapUri has to be in the values"
    if told is not None and told.state == people.UNREACHABLE:
        return f"directory {directory} is {told.state}, so it cannot check a password now"
    return ""


def _give_key(person: Person, seen: Situation) -> str:
    if person.source == VALUES:
        return f"Add a key: users.authorizedKeys.{person.name}"
    found = next((one for one in seen.directories if name_of(one) == person.source), Directory())
    return f"Add a key to the entry in directory {person.source}, attribute {found.ssh_key_attr or 'sshPublicKey'}"


def _login_pods(seen: Situation, person: Person) -> Iterator[Reason]:
    pods = seen.of(LOGIN)
    if pods and all(pod.known is None for pod in pods):
        yield Reason(f"no login Pod could be asked: {pods[0].trouble}")
    unaware = [pod.pod for pod in pods if pod.known is False]
    if unaware:
        yield Reason(
            f"not known yet in {', '.join(unaware)}. {_BY_CONFIG_MAP}",
            refuses=not any(pod.known for pod in pods),
            advice=f"If it stays so: kubectl exec {unaware[0]} -c sshd -- getent passwd {person.name}",
        )
    other = {pod.uid for pod in pods if pod.known and pod.uid != person.uid}
    if other:
        shown = ", ".join(map(str, sorted(filter(None, other))))
        yield Reason(
            f"a login Pod has another uid for {person.name}: {shown} instead of {person.uid}. {_BY_CONFIG_MAP}"
        )
    if any(pod.has_shell is False for pod in pods):
        yield Reason(
            f"the image of the login Pods has no {person.shell}",
            refuses=True,
            advice="Set overrideShell of the directory, or add the shell to the image (EXTRA_PACKAGES)",
        )


# Jobs


def _known_to_slurmctld(seen: Situation) -> Iterator[Reason]:
    pods = seen.of(CONTROLLER)
    if not pods or all(pod.known is None for pod in pods):
        why = pods[0].trouble if pods else "it has no Pod"
        yield Reason(f"slurmctld could not be asked: {why}", advice="sunk status")
    for pod in pods:
        if pod.known is False:
            yield Reason(
                f"slurmctld does not know {seen.name} yet. {_BY_CONFIG_MAP}",
                refuses=True,
                advice=f"If it stays so: kubectl exec {pod.pod} -c slurmctld -- getent passwd {seen.name}",
            )


def _association(seen: Situation) -> Iterator[Reason]:
    accounting, slurm = seen.spec.accounting, seen.slurm
    if not accounting.enabled or slurm.associations is None:
        return
    if not slurm.associations:
        if enforced(accounting):
            yield _no_association(seen)
        return
    yield from _missing_accounts(seen)
    if slurm.uid == UNKNOWN_UID:
        yield Reason(
            f"slurmctld read the association of {seen.name} before it knew the uid. It tries again every hour",
            refuses=True,
            advice=f"kubectl exec deploy/{seen.cluster}-controller -c slurmctld -- scontrol reconfigure",
        )
    if enforced(accounting) and not slurm.default_account:
        yield Reason("without a default account, jobs have to name one (--account)")
    yield from _limits(slurm)


def _no_association(seen: Situation) -> Reason:
    text = f"{seen.name} has no association, and accounting.enforce demands one (Invalid account or account/partition)"
    due = next((rule for rule in seen.rules if rule.applies), None)
    if due is not None:
        return Reason(
            f"{text}. {due.path} gives account {due.account}, which the syncer has not created yet",
            refuses=True,
            advice=f"kubectl logs deploy/{clusterobjects.named(seen.cluster, clusterobjects.SYNCER)} -c syncer --tail 50",
        )
    rules = "No rule of accounting.userAccounts applies" if seen.rules else "accounting.userAccounts has no rules"
    return Reason(
        f"{text}. {rules}",
        refuses=True,
        advice=f"Add a rule, or: kubectl exec {seen.cluster}-login-0 -c sshd -- sacctmgr -i add user {seen.name} account=ACCOUNT",
    )


def _missing_accounts(seen: Situation) -> Iterator[Reason]:
    for rule in seen.rules:
        if rule.made is False:
            yield Reason(f"account {rule.account} of {rule.path} is not there yet: the syncer creates it")


def _limits(slurm: SlurmView) -> Iterator[Reason]:
    for one in slurm.associations or ():
        if one.default_qos and one.qos and one.default_qos not in one.qos:
            yield Reason(
                f"in account {one.account} the default QOS {one.default_qos} is not among those that are allowed "
                f"({', '.join(one.qos)}), so jobs have to name one (--qos)"
            )
        nothing = [
            f"{name}=0" for name in ("MaxJobs", "MaxSubmit", "GrpJobs", "GrpSubmit") if one.limits.get(name) == "0"
        ]
        if nothing:
            yield Reason(
                f"in account {one.account} no job is allowed ({', '.join(nothing)})",
                refuses=len(slurm.associations or ()) == 1,
                advice=f"sacctmgr modify user … where account={one.account} set {nothing[0].split('=')[0]}=-1",
            )


def _partitions(seen: Situation, person: Person) -> Iterator[Reason]:
    partitions = seen.slurm.partitions
    if not partitions:
        return
    closed = {one.name: why for one in partitions if (why := _closed(one, person, seen.slurm))}
    everywhere = len(closed) == len(partitions)
    for name, why in closed.items():
        yield Reason(f"partition {name} is closed: {why}", refuses=everywhere)


def _closed(partition: Partition, person: Person, slurm: SlurmView) -> str:
    """Why the person cannot use a partition; empty if they can."""
    if partition.state not in {"UP", ""}:
        return f"its state is {partition.state}"
    if partition.groups is not None and not any(person.is_in(group) for group in partition.groups):
        return f"it is for groups {', '.join(partition.groups)}"
    accounts = {one.account for one in slurm.associations or ()}
    if not accounts:
        return ""
    if partition.accounts is not None and not accounts & set(partition.accounts):
        return f"it is for accounts {', '.join(partition.accounts)}"
    if partition.denied_accounts and accounts <= set(partition.denied_accounts):
        return f"it is not for accounts {', '.join(partition.denied_accounts)}"
    return ""


def _pending(seen: Situation) -> Iterator[Reason]:
    waiting: dict[str, list[Job]] = {}
    for one in seen.slurm.jobs or ():
        if one.pending:
            waiting.setdefault(one.reason, []).append(one)
    for reason, jobs in waiting.items():
        few = ", ".join(one.id for one in jobs[:3])
        shown = f"{counted(len(jobs), 'job')} ({few}{', …' if len(jobs) > 3 else ''})"  # noqa: PLR2004 - as many as are shown
        yield Reason(f"{shown} pending: {reason}: {told_of(reason)}")
