"""Whether Slurm takes a job of somebody, in plain words, and what to do about it."""

from collections.abc import Iterator

from sunk.insight.user.person import Person
from sunk.insight.user.reasons import told_of
from sunk.insight.user.rules import enforced
from sunk.insight.user.situation import BY_CONFIG_MAP, CONTROLLER, Reason, Situation, Verdict, verdict
from sunk.insight.user.slurm import UNKNOWN_UID, Job, Partition, SlurmView
from sunk.insight.user.unknown import unknown
from sunk.model.contract import clusterobjects
from sunk.model.wording import counted


def job(seen: Situation) -> Verdict:
    """Whether Slurm takes a job of the person."""
    if seen.person is None:
        return unknown(seen)
    reasons = [*_known_to_slurmctld(seen), *_association(seen), *_partitions(seen, seen.person), *_pending(seen)]
    unanswered = not any(pod.known for pod in seen.of(CONTROLLER)) or seen.slurm.partitions is None
    return verdict(reasons, blind=unanswered or (enforced(seen.spec.accounting) and seen.slurm.associations is None))


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
