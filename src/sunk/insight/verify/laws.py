"""The laws that SUNK keeps, as something that can be looked at from outside.

Two kinds of looks. A *fault* is a state that may be there for a moment, while a change travels from one side to the
other, but must not last. A *breach* is an act that must never be seen, however short: a Pod deleted under a job, a
record of Slurm deleted under a member. Whoever watches keeps both sides as they were last read and asks at every
change.

Nothing here shares a rule with the parts that it judges, only words and names (`sunk.model`). A rule that is wrong in
both would look right.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from sunk.insight.nodepods import NodePod
from sunk.insight.verify import locklaws
from sunk.insight.verify.faults import BRIEF, LONG, MOMENT, WAVE, Fault
from sunk.insight.verify.locklaws import LINGER, LockSight
from sunk.kube.core import Node, Pod, condition
from sunk.model import names
from sunk.model.contract import drains, hooks
from sunk.model.contract.syncerwrites import POD_CONDITIONS
from sunk.model.nodeslice import Entry
from sunk.objects.computepods import cleared, finished, may_hold_job, pending_deletion, ready, terminating
from sunk.objects.nodesets import NodeSet
from sunk.slurm.orders import extra
from sunk.slurm.records import Node as Row
from sunk.slurm.states import NodeBase, NodeFlag

DELETION_SEEN_WITHIN: Final = timedelta(seconds=10)
"""Within this time the deletion of a record is seen. A Pod that is younger may be the next one, made after it."""
SUDDEN: Final = 3.0
"""A drain of ours that takes the place of somebody else's so soon after its cause did not wait for that to be lifted."""
_OUT: Final = NodeFlag.DRAIN | NodeFlag.FAIL
_REBOOT: Final = NodeFlag.REBOOT_REQUESTED | NodeFlag.REBOOT_ISSUED
_ON_NODES: Final = (*POD_CONDITIONS, names.SLURM_CORDON)
_LABELS: Final = (names.NODESET, names.NAMESPACE, names.CLUSTER, names.POD)


class OwnedEntry(Struct, frozen=True):
    """An entry, and the NodeSet that it is of."""

    entry: Entry
    owner: str
    cluster: str


class Snapshot(Struct, frozen=True):
    """Both sides as they were last read. What could not be read is None, which is not the same as empty."""

    members: Mapping[str, tuple[OwnedEntry, ...]]
    """By name; more than one only while an entry moves, or if two NodeSets hold it."""
    pods: Mapping[str, Pod]
    sets: Mapping[str, NodeSet]
    """By uid."""
    nodes: Mapping[str, Node] | None = None
    rows: Mapping[str, Row] | None = None
    """Of Slurm."""
    jobs: Mapping[str, tuple[int, ...]] = {}
    """Those that hold a node, by its name."""
    cluster: str = ""
    """Whose Slurm the rows are of."""
    owed: Mapping[str, str] = {}
    """By Node: the drain of a person that was kept for it when its object was deleted, and not seen in Slurm since."""
    lifted: Mapping[str, str] = {}
    """Nodes in service with somebody's reason for a drain that was never seen on them, and was on with ours before."""
    others: Mapping[str, tuple[NodePod, ...]] | None = None
    """All Pods of locked Nodes, by Node."""
    linger: float = LINGER
    """Seconds for which the operator keeps idle Nodes locked."""


def faults(sides: Snapshot) -> Iterator[Fault]:
    """Everything that must not last."""
    yield from _shared_nodes(sides)
    yield from _left_behind(sides)
    for name, held in sides.members.items():
        yield from _member(sides, name, held[0].entry)
        yield from _lock(sides, held[0])
    if sides.rows is not None:
        for row in sides.rows.values():
            yield from _row(sides, row)


# Kubernetes by itself


def _shared_nodes(sides: Snapshot) -> Iterator[Fault]:
    owners: dict[str, set[str]] = {}
    for held in (each for several in sides.members.values() for each in several):
        owners.setdefault(held.entry.node, set()).add(held.owner)
    for node, found in owners.items():
        if len(found) > 1:
            sets = ", ".join(sorted(_set_name(sides, uid) for uid in found))
            yield Fault(5, "shared Node", f"Node {node}", f"belongs to several NodeSets: {sets}", grace=MOMENT)


def _left_behind(sides: Snapshot) -> Iterator[Fault]:
    taken = {held.entry.node for several in sides.members.values() for held in several}
    for name, node in (sides.nodes or {}).items():
        if name in taken or names.CLAIM in node.metadata.annotations:
            continue
        if remains := ", ".join(_remains(node)):
            yield Fault(5, "left behind", f"Node {name}", f"belongs to no NodeSet but still has {remains}", grace=LONG)


def _remains(node: Node) -> Iterator[str]:
    yield from (f"label {label}" for label in _LABELS if label in node.metadata.labels)
    yield from locklaws.remains(node)
    yield from (f"condition {one.type}" for one in node.status.conditions if one.type in _ON_NODES)


def _member(sides: Snapshot, name: str, entry: Entry) -> Iterator[Fault]:
    pod = sides.pods.get(name)
    node = None if sides.nodes is None else sides.nodes.get(entry.node)
    if pod is not None and node is not None and pod.spec.node_name == node.metadata.name and not terminating(pod):
        yield from _carried(pod, node)
    if entry.state == "leaving" and pod is None:
        yield Fault(7, "not leaving", f"member {name}", "is leaving and has no Pod, but is still listed", grace=LONG)


def _carried(pod: Pod, node: Node) -> Iterator[Fault]:
    """What the Pod says of Slurm, the Node says too."""
    if names.CLAIM not in node.metadata.annotations:
        return
    for kind in POD_CONDITIONS:
        told, shown = condition(pod.status.conditions, kind), condition(node.status.conditions, kind)
        wanted, found = (one.status if one else "Unknown" for one in (told, shown))
        if wanted != found:
            text = f"says {kind}={found} while its Pod {pod.metadata.name} says {wanted}"
            yield Fault(2, f"{kind} of Node", f"Node {node.metadata.name}", text, grace=MOMENT)
    drain, cordon = (
        condition(of.status.conditions, kind) for of, kind in ((pod, names.SLURM_DRAIN), (node, names.SLURM_CORDON))
    )
    if cordon is not None and cordon.status == "True" and drain is not None and drain.message.startswith(drains.PREFIX):
        text = f"shows SlurmCordon for a drain that came from Kubernetes: {drain.message}"
        yield Fault(2, "loop", f"Node {node.metadata.name}", text, grace=MOMENT)


# The lock, by what Slurm says if that is known, else by what the Pod says of it


def _lock(sides: Snapshot, held: OwnedEntry) -> Iterator[Fault]:
    entry, pod = held.entry, sides.pods.get(held.entry.name)
    node = None if sides.nodes is None else sides.nodes.get(entry.node)
    elsewhere = pod is not None and pod.spec.node_name != entry.node
    if (
        elsewhere
        or (sides.nodes is not None and node is None)
        or (node and names.CLAIM not in node.metadata.annotations)
    ):
        return
    owner = sides.sets.get(held.owner)
    yield from locklaws.faults(
        LockSight(
            pod=None if pod is None or terminating(pod) else pod,
            node=node,
            busy=_is_busy(sides, held, pod),
            slurm_only=None if owner is None else owner.spec.sharing == "slurmOnly",
            others=None if sides.others is None else sides.others.get(entry.node, ()),
            linger=sides.linger,
        )
    )


def _is_busy(sides: Snapshot, held: OwnedEntry, pod: Pod | None) -> bool | None:
    if sides.rows is not None and held.cluster == sides.cluster:
        row = sides.rows.get(held.entry.name)
        return None if row is None else row.state.busy or bool(sides.jobs.get(row.name))
    told = None if pod is None else condition(pod.status.conditions, names.SLURM_RUNNING)
    return None if told is None or told.status not in {"True", "False"} else told.status == "True"


# Both sides


def _row(sides: Snapshot, row: Row) -> Iterator[Fault]:
    about = f"Slurm node {row.name}"
    held = sides.members.get(row.name, ())
    if not held or held[0].cluster != sides.cluster:
        if drains.EXTRA_KEY in extra.read(row.extra):
            yield Fault(3, "left record", about, "is marked as SUNK's but is in no NodeSlice", grace=LONG)
        return
    causes = [*_causes(sides, held[0].entry)]
    if text := sides.lifted.get(row.name):
        words = f'is in service though someone else drained it ("{text}") when SUNK lifted its own drain'
        yield Fault(0, "lifted drain", about, words, grace=MOMENT)
    if row.state.draining and _is_ours(row) and not causes and _can_be_lifted(row):
        yield _uncaused(row)
    if causes and not _is_out(row) and _can_work(row):
        yield Fault(2, "cause without drain", about, f"takes jobs though {' and '.join(causes)}", grace=WAVE + MOMENT)
    yield from _new(sides, row, causes)
    yield from _owed(sides, row, held[0].entry)
    yield from _told(sides, row)


def _uncaused(row: Row) -> Fault:
    about = f"Slurm node {row.name}"
    if row.reason == hooks.UNREACHED:
        # Whether its Pod reaches the syncer is seen by nobody else. It calls every few seconds.
        text = "is drained because a prolog did not reach the syncer, which has still not heard from its Pod"
        return Fault(7, "unreached", about, text, grace=LONG)
    return Fault(2, "drain without cause", about, f'is drained with "{row.reason}", which has no cause', grace=MOMENT)


def _new(sides: Snapshot, row: Row, causes: list[str]) -> Iterator[Fault]:
    """A record that nobody has looked at yet takes no job."""
    about, jobs = f"Slurm node {row.name}", ", ".join(map(str, sides.jobs.get(row.name, ())))
    if row.state.draining and row.reason == drains.NEW and jobs:
        yield Fault(2, "job on new record", about, f"runs job {jobs} though its record has not been checked yet")
    pod = sides.pods.get(row.name)
    if _is_out(row) or drains.EXTRA_KEY in extra.read(row.extra) or pod is None or not _can_work(row):
        return
    kept = pod.metadata.annotations.get(names.KEPT_DRAIN, "")
    whys = [f"someone drained it before it left: {kept[:100]}"] * bool(kept)
    if whys := [*whys, *(why for why in causes if "cordoned" in why)]:
        text = f"has a new record that takes jobs ({jobs or 'none yet'}) though {' and '.join(whys)}"
        yield Fault(2, "new record", about, text, grace=BRIEF)


def _owed(sides: Snapshot, row: Row, entry: Entry) -> Iterator[Fault]:
    """A person's drain is there again when the machine is."""
    said = sides.owed.get(entry.node)
    if said is not None and entry.state == "joined" and not _is_out(row) and _can_work(row):
        text = f"takes jobs though someone drained its machine before Node {entry.node} was deleted: {said}"
        yield Fault(0, "lost drain", f"Slurm node {row.name}", text, grace=MOMENT)


def foreign(row: Row) -> bool:
    """Whether somebody else has taken it out of service."""
    return _is_out(row) and not _is_ours(row)


def _is_out(row: Row) -> bool:
    """It takes no new jobs because somebody said so. FAIL does that as a drain does, by a flag of its own."""
    return bool(row.state.flags & _OUT)


def _is_ours(row: Row) -> bool:
    return row.reason.startswith(drains.PREFIX) and NodeFlag.FAIL not in row.state


def _can_be_lifted(row: Row) -> bool:
    """A node that Slurm is to reboot stays drained until that is over."""
    return row.state.registered and row.state.base is not NodeBase.DOWN and not row.state.flags & _REBOOT


def _can_work(row: Row) -> bool:
    return _can_be_lifted(row) and not row.state.in_power_saving


def _causes(sides: Snapshot, entry: Entry) -> Iterator[str]:
    pod = sides.pods.get(entry.name)
    if entry.state == "leaving":
        yield "it is leaving"
    if pod is None:
        if entry.state != "parked":
            yield "it has no Pod"
    elif terminating(pod) or finished(pod):
        yield "its Pod is terminating"
    elif not ready(pod):
        yield "its Pod is not ready"
    if pod is not None and pending_deletion(pod) is not None:
        yield "its Pod is marked for deletion"
    if _is_cordoned(sides, pod):
        yield "its Node is cordoned"


def _is_cordoned(sides: Snapshot, pod: Pod | None) -> bool:
    if pod is None:
        return False
    node = None if sides.nodes is None else sides.nodes.get(pod.spec.node_name)
    return names.CORDON in pod.metadata.annotations or (node is not None and node.spec.unschedulable)


def _tells_of_another_cordon(sides: Snapshot, pod: Pod | None, row: Row) -> bool:
    """Whether a drain names a cordon that is not there, or one for another reason than the Pod was told."""
    causes = drains.read(row.reason)
    if causes is None or causes.cordon is None:
        return False
    reason = None if pod is None else pod.metadata.annotations.get(names.CORDON)
    return not _is_cordoned(sides, pod) or (reason is not None and drains.plain(reason) != causes.cordon)


def causes_of(pod: Pod) -> frozenset[str]:
    """What a Pod itself says that is a cause for a drain."""
    marks = {name for name in (names.CORDON, names.PENDING_DELETION) if name in pod.metadata.annotations}
    return frozenset(marks | ({"ending"} if terminating(pod) else set()) | (set() if ready(pod) else {"not ready"}))


def _told(sides: Snapshot, row: Row) -> Iterator[Fault]:
    """What Slurm says, the Pod says too."""
    pod = sides.pods.get(row.name)
    if pod is None or terminating(pod):
        return
    busy = row.state.busy or bool(sides.jobs.get(row.name))
    for kind, is_so in ((names.SLURM_DRAIN, _is_out(row)), (names.SLURM_RUNNING, busy)):
        told = condition(pod.status.conditions, kind)
        if told is None or told.status != str(is_so):
            found = told.status if told else "nothing"
            text = f"says {kind}={found} while Slurm says {row.state} ({row.reason or 'no reason'})"
            yield Fault(2, f"{kind} of Pod", f"Pod {row.name}", text, grace=MOMENT)


# Acts


def replaced_drain(sides: Snapshot, before: Row, after: Row, *, young: float | None) -> Iterator[Fault]:
    """Judge that a drain of ours stands where somebody else's stood.

    `young` is how old its newest cause is, in seconds; None if no cause is newer than that drain. Who lifts a drain under
    which a cause of ours holds gets ours at once, and the moment between is not seen. A node that was DOWN and is not any
    more was lifted by whoever resumed it. And who writes our prefix by hand, of a cordon that is not there or for a reason
    that is not its own, is not us.
    """
    resumed = before.state.base is NodeBase.DOWN and after.state.base is not NodeBase.DOWN
    if resumed or not _is_out(before) or _is_ours(before) or before.reason in {"", drains.NOT_RESPONDING}:
        return
    pod = sides.pods.get(after.name)
    asked = pod is not None and names.ORDER in pod.metadata.annotations
    if (
        not (_is_out(after) and _is_ours(after))
        or asked
        or drains.VERIFY in before.reason
        or young is None
        or young > SUDDEN
        or _tells_of_another_cordon(sides, pod, after)
    ):
        return
    word = "FAIL" if NodeFlag.FAIL in before.state else "drain"
    text = f'is drained with "{after.reason}", which replaced the {word} of someone else, "{before.reason}"'
    yield Fault(0, "replaced drain", f"Slurm node {after.name}", text)


def lifted_drain(before: Row, after: Row) -> str:
    """The reason that somebody gave for a drain which was lifted together with ours; empty if there is no sign of one.

    Slurm 24.11 leaves the text. A person who drains a node and takes that back does not do it between two reads.
    """
    if not (_is_out(before) and _is_ours(before)) or _is_out(after) or after.state.base is NodeBase.DOWN:
        return ""
    foreign = not after.reason.startswith(drains.PREFIX) and after.reason not in {"", drains.NOT_RESPONDING}
    return after.reason if foreign and after.reason_time >= before.reason_time else ""


def deleted_pod(sides: Snapshot, before: Pod, after: Pod | None) -> Iterator[Fault]:
    """Judge that a Pod was told to go, or is gone. Without a mark of ours it was somebody else's doing."""
    if terminating(before) or (after is not None and not terminating(after)):
        return
    name, why = before.metadata.name, pending_deletion(before)
    if why is None or not may_hold_job(before) or _forced(sides, name):
        return
    if not cleared(before):
        yield Fault(4, "deleted Pod", f"Pod {name}", f"was deleted ({why}) before Slurm released it")
    elif jobs := sides.jobs.get(name):
        yield Fault(4, "deleted Pod", f"Pod {name}", f"was deleted ({why}) under job {', '.join(map(str, jobs))}")


def deleted_row(sides: Snapshot, before: Row, *, now: datetime) -> Iterator[Fault]:
    """Judge that Slurm's record of a node is gone. That is seen late: meanwhile the member may have left and come back."""
    about = f"Slurm node {before.name}"
    if jobs := sides.jobs.get(before.name):
        yield Fault(3, "deleted record", about, f"was deleted under job {', '.join(map(str, jobs))}")
    held, pod = sides.members.get(before.name, ()), sides.pods.get(before.name)
    if not held or held[0].cluster != sides.cluster or held[0].entry.state != "joined" or pod is None:
        return
    if ready(pod) and not _outgrown(before, pod) and not _came_after(pod, now=now):
        yield Fault(3, "deleted record", about, "was deleted though it is a member and its Pod is ready")


def _came_after(pod: Pod, *, now: datetime) -> bool:
    """Whether the record that was deleted may have been that of the Pod before."""
    made = pod.metadata.creation_timestamp
    return made is not None and now - made < DELETION_SEEN_WITHIN


def _outgrown(row: Row, pod: Pod) -> bool:
    """Whether the record was of another size than the Pod: Slurm never changes one, so it has to be made again."""
    said = dict(each.partition("=")[::2] for each in pod.metadata.annotations.get(names.SHAPE, "").split())
    had = {"CPUs": str(row.cpus), "RealMemory": str(row.memory), "Gres": row.gres.partition("(")[0]}
    return any(key in said and said[key] != value for key, value in had.items())


def _forced(sides: Snapshot, name: str) -> bool:
    owners = (sides.sets.get(held.owner) for held in sides.members.get(name, ()))
    return any(one is not None and one.metadata.annotations.get(names.FORCE_DELETION) == "true" for one in owners)


def _set_name(sides: Snapshot, uid: str) -> str:
    found = sides.sets.get(uid)
    return found.metadata.name if found else uid
