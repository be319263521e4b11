"""Runs of jobs that prologs have told of, before a read of Slurm shows them, and for as long as a prolog waits.

The lock of an idle Node takes a few writes, each of some milliseconds; the next read of Slurm may be a second away. So a
run counts from the moment that its prolog calls. Whoever asks for the lock (`sunk.syncer.conditions`) adds these runs to
those that the mirror shows.

Such a word is believed for a moment only. Once a read that began after it is there, the row decides: a run that holds the
node is the mirror's to tell from then on; one that does not is over, and whoever waits for it is told. A read that is in
doubt decides nothing (law 1). So a Pod that tells of a job that does not exist has its own Node locked until the next
read, and one that tells of a job elsewhere nothing at all.

Work is done where something changed: an entry is looked at after its first read, and after each change of its job. There
are bounds, since anybody who is root in a Pod can call: past them a call is refused, and its prolog tries again.
"""

from collections.abc import Callable
from typing import Final

from sunk.model import loopclock
from sunk.model.contract.lock import MOST_JOBS, JobRun
from sunk.slurm.mirror.confidence import Known, State
from sunk.slurm.mirror.mirror import Mirror
from sunk.slurm.records import Job
from sunk.syncer.hooks.runs import ANNOUNCED, Presence, is_over, presence
from sunk.syncer.jobs import JobsByNode

MOST_ON_NODE: Final = MOST_JOBS // 4
"""Runs of one node. A request has room for all of them, and for those that the mirror shows."""
MOST: Final = 50_000
"""Runs of all nodes."""


class Announcement:
    """What a prolog has told: this run is about to start on this node."""

    __slots__ = ("counts", "node", "run", "seen", "since", "strict", "waiting")

    def __init__(self, node: str, run: JobRun, *, counts: bool) -> None:
        self.node: Final = node
        self.run: Final = run
        self.since: Final = loopclock.now()
        self.strict = False
        self.counts = counts
        """The lock is wanted for it: no row says that the run is over or elsewhere."""
        self.seen = False
        """The mirror shows it."""
        self.waiting = 0
        """Calls that wait."""


class Full(Exception):  # noqa: N818 - named as what it is
    """There is no room for another run. The message says where."""


class Announced:
    """Made together with the mirror; every replica has its own."""

    def __init__(self, mirror: Mirror, jobs_by_node: JobsByNode) -> None:
        self._mirror = mirror
        self._jobs_by_node = jobs_by_node
        self._by_node: dict[str, dict[JobRun, Announcement]] = {}
        self._by_job: dict[int, set[Announcement]] = {}
        self._unsettled: dict[Announcement, None] = {}
        """To be judged by the next read that can."""
        self._count = 0
        self._listeners: list[Callable[[str], None]] = []
        self._when_over: list[Callable[[str, JobRun], None]] = []
        mirror.jobs.subscribe(self._on_job)
        mirror.subscribe(self._on_read)

    def __len__(self) -> int:
        return self._count

    def of(self, node: str) -> dict[JobRun, bool]:
        """The runs of a node for which the lock is wanted, and whether strictly."""
        return {run: one.strict for run, one in self._by_node.get(node, {}).items() if one.counts}

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """Call it with each node of which there is something new to tell."""
        self._listeners.append(listener)

    def when_over(self, listener: Callable[[str, JobRun], None]) -> None:
        """Call it with each node and run of which a read has shown that it does not hold the node any more."""
        self._when_over.append(listener)

    def announce(self, node: str, run: JobRun, *, strict: bool) -> Announcement:
        """Hear of a run by a call that waits from now on, until `release`. Raises Full."""
        found = self._by_node.get(node, {}).get(run) or self._add(node, run)
        found.waiting += 1
        found.strict |= strict
        if found.counts:
            self._tell(node)
        return found

    def release(self, announcement: Announcement) -> None:
        """Hear that a call waits no more."""
        announcement.waiting -= 1
        if announcement.seen and not announcement.waiting:
            self._drop(announcement)

    def _add(self, node: str, run: JobRun) -> Announcement:
        here = len(self._by_node.get(node, ()))
        if here >= MOST_ON_NODE or self._count >= MOST:
            where = f"on {node}" if here >= MOST_ON_NODE else "in this cluster"
            raise Full(f"too many jobs are about to start {where} (limit {MOST_ON_NODE} on a node, {MOST} in all)")
        job, on_it = self._mirror.jobs.get(run.job_id), self._jobs_by_node.is_on(node, run.job_id)
        made = Announcement(node, run, counts=presence(run, job, here=on_it) in ANNOUNCED)
        self._by_node.setdefault(node, {})[run] = made
        self._by_job.setdefault(run.job_id, set()).add(made)
        self._unsettled[made] = None
        self._count += 1
        return made

    # What Slurm says

    def _on_job(self, job_id: int, _: Job | None, __: Job | None) -> None:
        self._unsettled.update(dict.fromkeys(self._by_job.get(job_id, ())))

    def _on_read(self, state: State) -> None:
        if not self._unsettled or not isinstance(state, Known) or self._mirror.suspicious:
            return
        begun = self._mirror.begun
        for each in [one for one in self._unsettled if one.since < begun]:
            self._judge(each)

    def _judge(self, announcement: Announcement) -> None:
        node, run = announcement.node, announcement.run
        job, here = self._mirror.jobs.get(run.job_id), self._jobs_by_node.is_on(node, run.job_id)
        if is_over(run, job, here=here):
            self._drop(announcement)
            for told in self._when_over:
                told(node, run)
            self._tell(node)
        elif presence(run, job, here=here) is Presence.HOLDS:
            del self._unsettled[announcement]
            announcement.counts = announcement.seen = True
            if not announcement.waiting:
                self._drop(announcement)
        elif not announcement.waiting:
            # Slurm has an earlier run of that job. No prolog waits that could know better.
            self._drop(announcement)
            self._tell(node)

    def _drop(self, announcement: Announcement) -> None:
        self._unsettled.pop(announcement, None)
        on_node, of_job = self._by_node.get(announcement.node, {}), self._by_job.get(announcement.run.job_id, set())
        if on_node.get(announcement.run) is not announcement:
            return
        del on_node[announcement.run]
        of_job.discard(announcement)
        self._count -= 1
        if not on_node:
            del self._by_node[announcement.node]
        if not of_job:
            del self._by_job[announcement.run.job_id]

    def _tell(self, node: str) -> None:
        for listener in self._listeners:
            listener(node)
