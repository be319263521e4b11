"""Whether Slurm takes a job of somebody, in plain words, and what to do about it."""

from collections.abc import Iterator
from typing import Final

from sunk.insight.user.person import Person
from sunk.insight.user.reasons import told_of
from sunk.insight.user.rules import enforced
from sunk.insight.user.situation import BY_CONFIG_MAP, CONTROLLER, Reason, Situation, Verdict, verdict
from sunk.insight.user.slurm import UNKNOWN_UID, Job, Partition, SlurmView
from sunk.insight.user.unknown import unknown
from sunk.model.contract import clusterobjects
from sunk.model.wording import counted

DOWN: Final = "DOWN"
"""Jobs are queued and not started. DRAIN takes no new ones and starts those that it has, INACTIVE does neither."""


def job(seen: Situation) -> Verdict:
    """Whether Slurm takes a job of the person."""
    if seen.person is None:
        return unknown(seen)
    reasons = [*_known_to_slurmctld(seen), *_association(seen), *_partitions(seen, seen.person), *_pending(seen)]
    unanswered = not any(pod.known for pod in seen.of(CONTROLLER)) or seen.slurm.partitions is None
    unsure = unanswered or (enforced(seen.spec.accounting) and seen.slurm.associations is None)
    return verdict(reasons, blind=unsure or not _has_open_partition(seen, seen.person))


def _known_to_slurmctld(seen: Situation) -> Iterator[Reason]:
    pods = seen.of(CONTROLLER)
    if not pods or all(pod.known is None for pod in pods):
        why = pods[0].trouble if pods else "it has no Pod"
        yield Reason(f"slurmctld could not be asked: {why}", advice="sunk status")
    for pod in pods:
        if pod.known is False:
            yield Reason(
                f"slurmctld does not know {seen.name} yet. {BY_CONFIG_MAP}",
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
    yield from _in_slurmctld(seen)
    if enforced(accounting) and slurm.default_account == "":
        yield Reason("without a default account, jobs have to name one (--account)")
    yield from _limits(slurm)


def _in_slurmctld(seen: Situation) -> Iterator[Reason]:
    """Whether slurmctld has the user as slurmdbd has, and with which uid."""
    known, uid = seen.slurm.in_slurmctld, seen.slurm.uid
    if seen.person is None or (known is not False and uid in {None, seen.person.uid}):
        return
    if known is False:
        text = f"slurmctld does not have the association of {seen.name}, which is in slurmdbd"
    elif uid == UNKNOWN_UID:
        text = f"slurmctld read the association of {seen.name} before it knew the uid. It tries again every hour"
    else:
        text = f"slurmctld has uid {uid} for {seen.name} instead of {seen.person.uid}. It looks again every hour"
    reconfigure = f"kubectl exec deploy/{seen.cluster}-controller -c slurmctld -- scontrol reconfigure"
    yield Reason(text, refuses=enforced(seen.spec.accounting), advice=reconfigure)


def _no_association(seen: Situation) -> Reason:
    text = f"{seen.name} has no association, and accounting.enforce demands one (Invalid account or account/partition)"
    add = f"kubectl exec {seen.cluster}-login-0 -c sshd -- sacctmgr -i add user {seen.name} account="
    due = [rule for rule in seen.rules if rule.applies]
    for rule in due:
        if not rule.removed:
            return Reason(
                f"{text}. {rule.path} gives account {rule.account}, which the syncer has not created yet",
                refuses=True,
                advice=f"kubectl logs deploy/{clusterobjects.named(seen.cluster, clusterobjects.SYNCER)} -c syncer --tail 50",
            )
    if due:
        gone = f"{due[0].path} gives account {due[0].account}, but somebody has removed it, so the syncer does not add it again"
        return Reason(f"{text}. {gone}", refuses=True, advice=f"{add}{due[0].account}")
    rules = "No rule of accounting.userAccounts applies" if seen.rules else "accounting.userAccounts has no rules"
    return Reason(f"{text}. {rules}", refuses=True, advice=f"Add a rule, or: {add}ACCOUNT")


def _missing_accounts(seen: Situation) -> Iterator[Reason]:
    for rule in seen.rules:
        if rule.removed:
            yield Reason(f"account {rule.account} of {rule.path} is not there: somebody has removed it")
        elif rule.made is False:
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
    partitions = seen.slurm.partitions or ()
    closed = {one.name: why for one in partitions if (why := _closed(one, person, seen.slurm))}
    everywhere = len(closed) == len(partitions)
    for name, why in closed.items():
        yield Reason(f"partition {name} is closed: {why}", refuses=everywhere)
    for one in partitions:
        if one.name not in closed and (why := _perhaps_closed(one, seen.slurm)):
            yield Reason(f"partition {one.name} is {why}, and which accounts are below them was not seen")
        if one.name not in closed and (why := _waits(one)):
            yield Reason(why)


def _has_open_partition(seen: Situation, person: Person) -> bool:
    """Whether one is surely open. If there is none at all, that decides nothing."""
    partitions = seen.slurm.partitions
    return not partitions or any(
        not _closed(one, person, seen.slurm) and not _perhaps_closed(one, seen.slurm) for one in partitions
    )


def _waits(partition: Partition) -> str:
    """Why a job has to wait in a partition that takes it."""
    return f"partition {partition.name} is {DOWN}: jobs wait there until it is UP" if partition.state == DOWN else ""


def _closed(partition: Partition, person: Person, slurm: SlurmView) -> str:
    """Why the person cannot use a partition; empty if they can, or if that was not seen."""
    if partition.state not in {"UP", DOWN, ""}:
        return f"its state is {partition.state}"
    if partition.groups is not None and not any(person.is_in(group) for group in partition.groups):
        return f"it is for groups {', '.join(partition.groups)}"
    if slurm.parents is not None and (why := _by_account(partition, slurm)):
        return f"it is {why}"
    return _by_qos(partition, slurm)


def _perhaps_closed(partition: Partition, slurm: SlurmView) -> str:
    return _by_account(partition, slurm) if slurm.parents is None else ""


def _by_account(partition: Partition, slurm: SlurmView) -> str:
    """Whom a partition is for, if no account of the person is among these, or below one of them."""
    lines = [_line(one.account, slurm.parents or {}) for one in slurm.associations or ()]
    denied = set(partition.denied_accounts)
    if not lines:
        return ""
    if partition.accounts is not None and all(line.isdisjoint(partition.accounts) for line in lines):
        return f"for accounts {', '.join(partition.accounts)}"
    if denied and (slurm.parents is None or not any(line.isdisjoint(denied) for line in lines)):
        return f"not for accounts {', '.join(partition.denied_accounts)}"
    return ""


def _line(account: str, parents: dict[str, str]) -> set[str]:
    """An account and all that are above it."""
    line: set[str] = set()
    while account and account not in line:
        line.add(account)
        account = parents.get(account, "")
    return line


def _by_qos(partition: Partition, slurm: SlurmView) -> str:
    allowed = {name for one in slurm.associations or () for name in one.qos}
    if allowed and partition.qos is not None and allowed.isdisjoint(partition.qos):
        return f"it is for QOS {', '.join(partition.qos)}"
    if allowed and allowed <= set(partition.denied_qos):
        return f"it is not for QOS {', '.join(partition.denied_qos)}"
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
