"""Which lock a compute Pod asks for, and when it is worth a write to say so.

The request names the runs of jobs that hold the node (`sunk.model.contract.lock`). It goes in the patch of the conditions,
so that a Pod never says SlurmRunning=False while it asks for a lock. When it is written:

- a run that is new, or a job that needs the lock to be strict: at once, since a prolog waits;
- a run that has ended while others hold the node: with the next write for another reason, since it would be a write for
  each job that ends, and the lock is the same. But at once if the lock is strict: Pods that Slurm has placed are told
  from those that outlive their job by the numbers in here. (Which of the runs are placeholders the request does not say.
  To tell by their rows would trust a text that the owner of a job can change.)
- no run that is left: together with SlurmRunning=False.

While it is not certain what holds the node, nothing is taken off.

A request that somebody has damaged or set back is lost: what is asked next gets a number above the last answer to this
Pod, so that no answer from before can pass for one to it.
"""

from msgspec.structs import replace

from sunk.model import names
from sunk.model.contract import lock
from sunk.model.contract.lock import JobRun, LockRequest
from sunk.syncer.pods import ComputePod


def wanted_request(pod: ComputePod, runs: frozenset[JobRun], *, strict: bool, certain: bool) -> LockRequest | None:
    """What the Pod should ask for while these runs hold its node; None to leave what it has, which nobody can read."""
    asked, answered = _asked(pod), _answered(pod)
    if asked is None and not certain and not runs:
        return None
    before = asked or LockRequest()
    named = runs if certain else runs | frozenset(before.runs)
    if asked is None or answered > asked.number:
        before = replace(before, number=max(before.number, answered), runs=())
    return lock.next_request(before, _newest(named), strict=strict)


def request_text(pod: ComputePod, wanted: LockRequest | None, *, running: bool, writing: bool) -> str | None:
    """The annotation to write, or None if there is nothing to write, or it can wait.

    `running` is what SlurmRunning is to say, `writing` whether there is another reason to write.
    """
    if wanted is None or (asked := _asked(pod)) == wanted:
        return None
    return lock.write(wanted) if writing or _urgent(asked, wanted, running=running) else None


def _urgent(asked: LockRequest | None, wanted: LockRequest, *, running: bool) -> bool:
    if asked is None or wanted.number != asked.number:
        return True
    return asked.strict or not (wanted.runs or running)


def _newest(runs: frozenset[JobRun]) -> frozenset[JobRun]:
    """As many as a request has room for. If there were more, always the same ones are chosen."""
    return frozenset(sorted(runs)[-lock.MOST_JOBS :])


def _asked(pod: ComputePod) -> LockRequest | None:
    return lock.read(pod.metadata.annotations.get(names.LOCK_REQUEST))


def _answered(pod: ComputePod) -> int:
    """The number of the last request of this Pod that was answered, as far as its copy tells."""
    given = lock.answer(pod.metadata.annotations)
    return given.number if given is not None and given.owner == pod.metadata.uid else 0
