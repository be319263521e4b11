"""Which rows a person asked to see.

Among them the nodes of a partition. Slurm says that the other way round: each partition has a list of nodes.
"""

import pwd
from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec import Struct

from sunk.model.hostlist import expand
from sunk.model.refusal import Refusal
from sunk.slurm.records import Job, Node, Partition
from sunk.slurm.states import JobBase, JobFlag, JobState, NodeBase, NodeFlag, NodeState

NODE_WORDS = frozenset({*NodeBase.__members__, *NodeFlag.__members__, "ALLOC", "MIX", "DRAINING", "DRAINED", "BUSY"})
JOB_WORDS = frozenset({*JobBase.__members__, *JobFlag.__members__, "PD", "R", "CG", "ENDED"})


class StateFilter(Struct, frozen=True):
    """A state as people write it: one of several, each of which may want several words at once (`idle+drain`)."""

    choices: tuple[frozenset[str], ...] = ()

    def holds(self, words: frozenset[str]) -> bool:
        return not self.choices or any(choice <= words for choice in self.choices)


def state_filter(texts: Iterable[str], *, known: frozenset[str]) -> StateFilter:
    """Read `idle,mixed` or `idle+drain`, in any case, from one or several texts."""
    choices = [frozenset(part.upper().split("+")) for text in texts for part in text.split(",") if part]
    for word in sorted({word for choice in choices for word in choice} - known):
        raise Refusal(f"{word} is not a Slurm state. Valid: {', '.join(sorted(known)).lower()}.")
    return StateFilter(choices=tuple(choices))


def names(texts: Iterable[str]) -> frozenset[str] | None:
    """The nodes named by hostlists; None for no list at all, which means every node."""
    found = tuple(texts)
    try:
        return frozenset(name for text in found for name in expand(text)) if found else None
    except ValueError as error:
        raise Refusal(f"{' '.join(found)} is not a list of nodes: {error}.") from error


def user_number(name: str) -> int:
    if name.isdecimal():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError as missing:
        raise Refusal(f"no user {name} on this machine. Give the UID instead: `id -u {name}`.") from missing


class NodeSelection(Struct, frozen=True):
    """Which nodes. `names` and `partitions` are all that there are if None."""

    names: frozenset[str] | None = None
    states: StateFilter = StateFilter()
    partitions: frozenset[str] | None = None

    def pick(self, rows: Iterable[Node], *, partitions: Mapping[str, tuple[str, ...]]) -> list[Node]:
        picked = (row for row in rows if self._wants(row, partitions.get(row.name, ())))
        return sorted(picked, key=lambda row: natural(row.name))

    def missing(self, rows: Iterable[Node]) -> list[str]:
        return sorted((self.names or frozenset()) - {row.name for row in rows}, key=natural)

    def _wants(self, node: Node, partitions: tuple[str, ...]) -> bool:
        named = self.names is None or node.name in self.names
        inside = self.partitions is None or not self.partitions.isdisjoint(partitions)
        return named and inside and self.states.holds(node_words(node.state))


class JobSelection(Struct, frozen=True):
    """Which jobs. Those that have ended and hold no node are shown only if asked for, by `ended` or by their state."""

    users: frozenset[int] | None = None
    partitions: frozenset[str] | None = None
    states: StateFilter = StateFilter()
    ended: bool = False

    def pick(self, rows: Iterable[Job]) -> list[Job]:
        return sorted((row for row in rows if self._wants(row)), key=lambda row: (row.array_id or row.id, row.id))

    def _wants(self, job: Job) -> bool:
        mine = self.users is None or job.user_id in self.users
        # A pending job may name several.
        inside = self.partitions is None or not self.partitions.isdisjoint(job.partition.split(","))
        alive = self.ended or bool(self.states.choices) or not job.state.ended or job.state.holds_nodes
        return mine and inside and alive and self.states.holds(job_words(job.state))


def node_words(state: NodeState) -> frozenset[str]:
    """Every word by which somebody may ask for a node in this state."""
    found = {state.base.name, *(flag.name for flag in NodeFlag if flag in state and flag.name)}
    found |= {"ALLOC"} if state.base is NodeBase.ALLOCATED else set()
    found |= {"MIX"} if state.base is NodeBase.MIXED else set()
    found |= {"BUSY"} if state.busy else set()
    if state.draining:
        found.add("DRAINED" if state.drained else "DRAINING")
    return frozenset(found)


def job_words(state: JobState) -> frozenset[str]:
    found = {state.base.name, *(flag.name for flag in JobFlag if flag in state and flag.name)}
    short = {JobBase.PENDING: "PD", JobBase.RUNNING: "R"}
    found |= {short[state.base]} if state.base in short else set()
    found |= {"CG"} if state.completing else set()
    found |= {"ENDED"} if state.ended else set()
    return frozenset(found)


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """An order in which n9 comes before n10."""
    parts: list[str] = [""]
    for each in name:
        if parts[-1] and parts[-1][-1].isdigit() is not each.isdigit():
            parts.append("")
        parts[-1] += each
    return tuple((int(part) if part.isascii() and part.isdigit() else -1, part) for part in parts)


def partitions_by_node(partitions: Iterable[Partition]) -> Mapping[str, tuple[str, ...]]:
    """The names of each node's partitions, in order; a node that is in none is not there."""
    found: dict[str, list[str]] = {}
    for partition in sorted(partitions, key=lambda each: each.name):
        for node in _expanded(partition.nodes):
            found.setdefault(node, []).append(partition.name)
    return {node: tuple(names) for node, names in found.items()}


# Lists of thousands change seldom, and this is asked whenever any row of any table has changed.
@lru_cache(maxsize=64)
def _expanded(nodes: str) -> frozenset[str]:
    return frozenset(expand(nodes))
