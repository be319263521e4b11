"""Why a node is as it is, in sentences: from the Kubernetes Node up through its Pod to Slurm, and what to do next.

Everything is taken from what Kubernetes holds. What Slurm says is there too: the syncer writes it on the Pod.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

from msgspec import Struct

from sunk.insight.explain.locks import LockContext, lock_advice, lock_sentences
from sunk.insight.explain.sentence import Sentence
from sunk.insight.nodepods import NodePod
from sunk.insight.status.members import ObservedMember, cause_of, line
from sunk.kube.core import Condition, Node, Pod, condition
from sunk.model import names
from sunk.model.contract import clusterobjects, drains, hooks
from sunk.model.contract.conditions import IN_STEP, NO_SYNCER
from sunk.model.contract.report import Report
from sunk.objects.computepods import cleared, finished, pending_deletion, ready, running, terminating
from sunk.objects.nodesets import NodeSet
from sunk.objects.slurmclusters import SlurmCluster


class Explanation(Struct, frozen=True):
    """The chain, and what a person may do. `well` if there is nothing to explain."""

    name: str
    node: str
    sentences: tuple[Sentence, ...]
    advice: tuple[str, ...]
    well: bool


def explain(  # noqa: PLR0913 - one for each thing that is known
    seen: ObservedMember,
    *,
    owner: NodeSet | None,
    cluster: SlurmCluster | None,
    reason_key: str = names.CORDON_REASON,
    others: tuple[NodePod, ...] | None = (),
    now: datetime | None = None,
) -> Explanation:
    """Explain a member.

    `reason_key` is the annotation of Nodes that says why one was cordoned. `others` are all Pods of its Node, None if they
    may not be listed.
    """
    report = report_of(cluster)
    blind = _blind(cluster, report)
    lock = LockContext(
        seen, slurm_only=bool(owner and owner.spec.sharing == "slurmOnly"), others=others, now=now or datetime.now(UTC)
    )
    about = (*_membership(seen, owner), *_node(seen, reason_key), *_pod(seen))
    found = (*about, *_slurm(seen), *lock_sentences(lock), *_syncer(report))
    advice = (*_advice_to_the_blind(cluster, blind), *_advice(seen, cluster, report), *lock_advice(lock))
    unique = tuple(dict.fromkeys(advice))
    return Explanation(seen.entry.name, seen.entry.node, (*blind, *found), unique, well=not unique)


def report_of(cluster: SlurmCluster | None) -> Report:
    """What the syncer last said of itself; empty if it has said nothing yet."""
    return (cluster.status.syncer if cluster else None) or Report()


def _blind(cluster: SlurmCluster | None, report: Report) -> tuple[Sentence, ...]:
    """Say that what follows may be old: the syncer cannot read Slurm, or there is no syncer."""
    told = next((one for one in (cluster.status.conditions if cluster else ()) if one.type == IN_STEP), None)
    why = report.unseen
    if not why and told is not None and told.status != "True" and told.reason in NO_SYNCER:
        why = told.message
    if not why:
        return ()
    since = told.last_transition_time if told is not None and told.status != "True" else None
    return (Sentence("Syncer", f"{line(why)}. The lines below may be outdated", since, grave=True),)


def _advice_to_the_blind(cluster: SlurmCluster | None, blind: tuple[Sentence, ...]) -> Iterator[str]:
    if blind and cluster is not None:
        at = f"-n {cluster.metadata.namespace}"
        yield f"kubectl get pods {at} -l {names.CLUSTER}={cluster.metadata.name}    # do slurmctld and the syncer run?"
        yield f"kubectl logs {at} deploy/{clusterobjects.named(cluster.metadata.name, clusterobjects.SYNCER)} -c syncer --tail 50"


def _membership(seen: ObservedMember, owner: NodeSet | None) -> Iterator[Sentence]:
    entry, of = seen.entry, owner.metadata.name if owner else "a NodeSet that no longer exists"
    match entry.state:
        case "leaving":
            why = line(entry.reason) or "no reason given"
            order = "Removal order: Pod (after its jobs end), Slurm node, NodeSet entry"
            yield Sentence("NodeSet", f"leaving {of}: {why}. {order}")
        case "parked":
            yield Sentence("NodeSet", f"member of {of}, parked: Slurm has powered it down, so it has no Pod")
        case _:
            yield Sentence("NodeSet", f"member of {of}")
    if seen.refused:
        yield Sentence("Slurm", f"cannot release the record: {line(seen.refused)}", grave=True)


def _node(seen: ObservedMember, reason_key: str) -> Iterator[Sentence]:
    node = seen.node
    if node is None:
        if seen.node_known:
            yield Sentence("Node", f"{seen.entry.node} no longer exists in Kubernetes", grave=True)
        return
    told = condition(node.status.conditions, "Ready")
    if told is None or told.status != "True":
        since = told.last_transition_time if told else None
        yield Sentence("Node", f"{seen.entry.node} is not ready: {_why(told)}", since=since, grave=True)
    if node.spec.unschedulable:
        yield Sentence("Node", f"{seen.entry.node} is cordoned{_cordon_reason(seen.pod, node, reason_key)}", grave=True)


def _cordon_reason(pod: Pod | None, node: Node, key: str) -> str:
    # The operator knows under which key people write it, and has copied it to the Pod.
    copied = "" if pod is None else pod.metadata.annotations.get(names.CORDON, "")
    reason = copied or node.metadata.annotations.get(key, "")
    return f": {line(reason)}" if reason else ", without a reason"


def _pod(seen: ObservedMember) -> Iterator[Sentence]:
    pod = seen.pod
    if pod is None:
        if seen.entry.state == "joined":
            yield Sentence("Pod", "none yet; the NodeSet controller creates one, or reports why it cannot", grave=True)
        return
    yield _life(pod)
    if names.CORDON in pod.metadata.annotations:
        yield Sentence("Pod", "marked as cordoned by the Pod controller, because its Node is")
    if (drain := pod.metadata.annotations.get(names.KEPT_DRAIN)) is not None:
        text = f"has a saved drain from before its Node was removed: {line(drain)}"
        yield Sentence("Pod", f"{text}. A new Slurm node gets that drain again")
    if (why := pending_deletion(pod)) is not None:
        done = "Slurm has released it" if cleared(pod) else "it stays until its jobs have ended"
        yield Sentence("Pod", f"marked for deletion: {line(why)}; {done}")


def _life(pod: Pod) -> Sentence:
    if terminating(pod):
        return Sentence("Pod", "terminating", since=pod.metadata.deletion_timestamp, grave=True)
    if finished(pod):
        return Sentence("Pod", f"ended ({pod.status.phase}){_because(cause_of(pod))}", grave=True)
    if ready(pod):
        return Sentence("Pod", "ready")
    told = condition(pod.status.conditions, "Ready")
    since = told.last_transition_time if told else pod.metadata.creation_timestamp
    return Sentence("Pod", f"not ready{_because(cause_of(pod))}", since=since, grave=True)


def _slurm(seen: ObservedMember) -> Iterator[Sentence]:
    pod = seen.pod
    if pod is None:
        return
    drain = condition(pod.status.conditions, names.SLURM_DRAIN)
    if drain is None:
        yield Sentence("Slurm", "the syncer has not reported on this node yet", grave=True)
        return
    if drain.status == "Unknown":
        yield Sentence("Slurm", f"does not know this node: {_why(drain)}", drain.last_transition_time, grave=True)
        return
    if drain.status == "True":
        yield from _drained(seen, drain)
    lost = condition(pod.status.conditions, names.SLURM_NOT_RESPONDING)
    if lost is not None and lost.status == "True":
        yield Sentence("Slurm", "gets no answer from slurmd", lost.last_transition_time, grave=True)
    if running(pod):
        told = condition(pod.status.conditions, names.SLURM_RUNNING)
        yield Sentence("Slurm", f"runs jobs{_because(told.message if told else '')}")
    elif drain.status != "True":
        yield Sentence("Slurm", "in service, idle")


def _drained(seen: ObservedMember, drain: Condition) -> Iterator[Sentence]:
    reason = line(drain.message) or "no reason given"
    if drain.message == drains.NEW:
        text = "its record is new and takes no jobs until the syncer has checked it, which takes a moment"
        yield Sentence("Slurm", text, drain.last_transition_time)
        return
    if drain.message == hooks.UNREACHED:
        text = f'drained by a prolog that got no answer from the syncer: "{reason}". Lifted when this Pod reaches it'
        yield Sentence("Slurm", text, drain.last_transition_time, grave=True)
        return
    if drain.message.startswith(drains.PREFIX):
        text = f'drained by the syncer: "{reason}"'
        text += ", for the cause above" if _caused(seen) else ". The cause is gone: the syncer will lift it"
        yield Sentence("Slurm", text, drain.last_transition_time, grave=True)
        return
    text = f'drained, but not by SUNK: "{reason}". SUNK does not lift this drain'
    if drains.VERIFY in drain.message:
        text = f'drained until the machine is verified: "{reason}"'
    if drain.message == hooks.TIMED_OUT:
        text = f'drained because other work did not leave the Node in time: "{reason}". A verification lifts it'
    yield Sentence("Slurm", text, drain.last_transition_time, grave=True)
    if drains.VERIFY in drain.message:
        yield _verified(seen.pod)


def _verified(pod: Pod | None) -> Sentence:
    told = condition(pod.status.conditions, names.HPC_VERIFICATION) if pod else None
    if told is None:
        return Sentence("Pod", f"not verified yet: it has no condition {names.HPC_VERIFICATION}", grave=True)
    passed = "passed" if told.status == "True" else "failed"
    return Sentence(
        "Pod", f"the last verification {passed}; only one that passes after the drain counts", told.last_transition_time
    )


def _caused(seen: ObservedMember) -> bool:
    pod, node = seen.pod, seen.node
    if pod is None or not ready(pod) or seen.entry.state == "leaving":
        return True
    cordoned = names.CORDON in pod.metadata.annotations or (node is not None and node.spec.unschedulable)
    return cordoned or pending_deletion(pod) is not None


def _syncer(report: Report) -> Iterator[Sentence]:
    if report.held:
        yield Sentence("Syncer", f"holds back all deletions: {line(report.held)}", grave=True)
    if report.delayed:
        yield Sentence("Syncer", f"delays drains: {line(report.delayed)}")


def _advice(seen: ObservedMember, cluster: SlurmCluster | None, report: Report) -> Iterator[str]:
    pod, node, name = seen.pod, seen.node, seen.entry.name
    if node is not None and node.spec.unschedulable:
        yield f"kubectl uncordon {seen.entry.node}    # once the machine is repaired; Slurm follows"
    if pod is None:
        if seen.entry.state == "joined":
            yield "sunk status    # what the NodeSet reports"
        return
    at = f"-n {pod.metadata.namespace} {name}"
    if not ready(pod) and not terminating(pod):
        yield f"kubectl describe pod {at}"
        yield f"kubectl logs {at} -c {names.SLURMD} --tail 50"
    drain = condition(pod.status.conditions, names.SLURM_DRAIN)
    if drain is None:
        syncer = clusterobjects.named(cluster.metadata.name, clusterobjects.SYNCER) if cluster else "…-syncer"
        yield f"kubectl logs -n {pod.metadata.namespace} deploy/{syncer} --tail 50    # does it run?"
    elif drain.status == "True" and drain.message in {hooks.UNREACHED, hooks.TIMED_OUT}:
        yield f"kubectl logs {at} -c {names.SLURMD} | grep prelock    # what the prolog was answered"
    if drain is not None and drain.status == "True" and not drain.message.startswith(drains.PREFIX):
        yield f"sunk undrain {name}    # once the reason no longer applies"
    if pending_deletion(pod) is not None and running(pod):
        yield f"squeue -w {name}    # the jobs it waits for; the Pod is deleted after these end"
    if report.held:
        yield "sunk status    # check what is held back, and confirm it if it is correct"


def _why(told: Condition | None) -> str:
    return line(told.message or told.reason) if told and (told.message or told.reason) else "no reason given"


def _because(text: str) -> str:
    return f": {line(text)}" if text else ""
