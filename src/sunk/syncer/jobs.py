"""Which jobs hold a node, by what the jobs say.

A node's own state says nearly all of it, but not all: with a suspended job on it a node is IDLE. So before anything is
taken away the jobs are asked too. There may be ten thousand of them, hence their nodes are kept by name and only what
a read has changed is processed: a queue in which nothing starts or ends costs nothing.
"""

from collections.abc import Callable

from sunk.model.hostlist import expand
from sunk.slurm.mirror.rows import Rows
from sunk.slurm.records import Job

Subscriber = Callable[[str], None]


class JobsByNode:
    """Follows the mirror's jobs from the moment that it is made."""

    def __init__(self, jobs: Rows[int, Job]) -> None:
        self._jobs = jobs
        self._by_node: dict[str, set[int]] = {}
        self._anywhere: set[int] = set()
        """Jobs whose nodes cannot be read: they may be on any node."""
        self._subscribers: list[Subscriber] = []
        for job in jobs.all():
            self._on_job(job.id, None, job)
        jobs.subscribe(self._on_job)

    def ids(self, name: str) -> tuple[int, ...]:
        """The ids of the jobs that hold a node, in order."""
        return tuple(sorted(self._by_node.get(name, set()) | self._anywhere))

    def jobs(self, name: str) -> tuple[Job, ...]:
        jobs = (self._jobs.get(job_id) for job_id in self.ids(name))
        return tuple(job for job in jobs if job is not None)

    def is_on(self, name: str, job_id: int) -> bool:
        """Whether a job holds a node, or may do so."""
        return job_id in self._by_node.get(name, ()) or job_id in self._anywhere

    def has_jobs(self, name: str) -> bool:
        return name in self._by_node or bool(self._anywhere)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call it with each node that a run of a job has taken or released. Returns how to unsubscribe."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def _on_job(self, job_id: int, before: Job | None, after: Job | None) -> None:
        old, new = _hostlist(before), _hostlist(after)
        rerun = before is not None and after is not None and before.restarts != after.restarts
        if old == new and not rerun:
            return
        left, taken = self._nodes(job_id, old), self._nodes(job_id, new)
        for name in left - taken:
            self._leave(name, job_id)
        for name in taken - left:
            self._by_node.setdefault(name, set()).add(job_id)
        # A job may be requeued and have the same nodes again before anybody looks.
        for name in (left | taken) if rerun else (left ^ taken):
            for subscriber in tuple(self._subscribers):
                subscriber(name)

    def _nodes(self, job_id: int, hostlist: str) -> frozenset[str]:
        try:
            nodes = frozenset(expand(hostlist))
        except ValueError:
            self._anywhere.add(job_id)
            return frozenset()
        self._anywhere.discard(job_id)
        return nodes

    def _leave(self, name: str, job_id: int) -> None:
        held = self._by_node.get(name, set())
        held.discard(job_id)
        if not held:
            self._by_node.pop(name, None)


def _hostlist(job: Job | None) -> str:
    """The nodes that a job holds. While it completes these are the ones whose epilog still runs."""
    return job.nodes if job is not None and job.state.holds_nodes else ""
