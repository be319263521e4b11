"""Which jobs hold a node, by what the jobs say.

A node's own state says nearly all of it, but not all: with a suspended job on it a node is IDLE. So before anything is
taken away the jobs are asked too. There may be ten thousand of them, hence their nodes are kept by name and only what
a read has changed is looked at: a queue in which nothing starts or ends costs nothing.
"""

from collections.abc import Callable

from sunk.model.hostlist import expand
from sunk.slurm.mirror.rows import Rows
from sunk.slurm.records import Job

Subscriber = Callable[[str], None]


class Holders:
    """Kept by the changes of the mirror's jobs, from the moment that it is made."""

    def __init__(self, jobs: Rows[int, Job]) -> None:
        self._jobs = jobs
        self._by_node: dict[str, set[int]] = {}
        self._anywhere: set[int] = set()
        """Jobs whose nodes cannot be read: they may be on any node."""
        self._subscribers: list[Subscriber] = []
        for job in jobs.all():
            self._hear(job.id, None, job)
        jobs.subscribe(self._hear)

    def of(self, name: str) -> tuple[int, ...]:
        """The numbers of the jobs that hold a node, in order."""
        return tuple(sorted(self._by_node.get(name, set()) | self._anywhere))

    def jobs(self, name: str) -> tuple[Job, ...]:
        found = (self._jobs.get(number) for number in self.of(name))
        return tuple(job for job in found if job is not None)

    def holds(self, name: str) -> bool:
        return name in self._by_node or bool(self._anywhere)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Be called with each node that a job has taken or let go. Returns how to end that."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def _hear(self, number: int, before: Job | None, after: Job | None) -> None:
        old, new = _place(before), _place(after)
        if old == new:
            return
        left, taken = self._nodes(number, old), self._nodes(number, new)
        for name in left - taken:
            self._leave(name, number)
        for name in taken - left:
            self._by_node.setdefault(name, set()).add(number)
        for name in left ^ taken:
            for subscriber in tuple(self._subscribers):
                subscriber(name)

    def _nodes(self, number: int, place: str) -> frozenset[str]:
        try:
            found = frozenset(expand(place))
        except ValueError:
            self._anywhere.add(number)
            return frozenset()
        self._anywhere.discard(number)
        return found

    def _leave(self, name: str, number: int) -> None:
        held = self._by_node.get(name, set())
        held.discard(number)
        if not held:
            self._by_node.pop(name, None)


def _place(job: Job | None) -> str:
    """The nodes that a job holds, as a hostlist. While it completes these are the ones whose epilog still runs."""
    return job.nodes if job is not None and job.state.holds_nodes else ""
