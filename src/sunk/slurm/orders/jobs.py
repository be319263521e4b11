"""What we tell Slurm about jobs.

An order that ends a job counts as done when the job is gone already, and says so. To submit is the one thing that
cannot be repeated blindly: after `Unreachable` look for the job by what you wrote into its extra.
"""

import signal as signals
from functools import partial
from typing import Final

from msgspec.structs import replace

from sunk.slurm.errors import InvalidJob
from sunk.slurm.libslurm.description import JobDescription
from sunk.slurm.libslurm.library import Library
from sunk.slurm.libslurm.wire import Given
from sunk.slurm.orders import bounds
from sunk.slurm.states import JobFlag

BATCH_SHELL: Final = 1 << 0
WHOLE_JOB: Final = 1 << 3
_HOME: Final = "/"
_PATH: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


class JobOrders:
    """Orders about jobs."""

    def __init__(self, library: Library) -> None:
        self._library = library

    async def submit(self, wanted: JobDescription) -> Given:
        """Queue a job with a script. Slurm wants an environment with it; there is one if none is named."""
        if not wanted.script:
            raise ValueError(f"job {wanted.name!r} has no script: submit it with one, or use an allocation")
        bounds.check_job(wanted)
        whole = replace(_somewhere(wanted), environment=wanted.environment or _PATH)
        return await self._library.call(partial(self._library.wire.submit, whole), asked=f"submit job {wanted.name}")

    async def allocate(self, wanted: JobDescription) -> Given:
        """Queue a job without a script: nothing of it runs on its nodes but prolog and epilog.

        It belongs to the user of this process: unlike with `submit`, 24.11 with auth/slurm does not look at the one
        that is named, not even when root names it.
        """
        if wanted.script:
            raise ValueError(f"job {wanted.name!r} has a script: use submit instead")
        bounds.check_job(wanted)
        send = partial(self._library.wire.allocate, _somewhere(wanted))
        return await self._library.call(send, asked=f"allocate job {wanted.name}")

    async def cancel(self, job: int) -> bool:
        """End a job. False if it had ended already, or is about to."""
        return await self.signal(job, number=signals.SIGKILL)

    async def signal(
        self, job: int, *, number: int, step: int | None = None, batch_shell: bool = False, whole: bool = False
    ) -> bool:
        """Send a signal to the steps of a job; or to one step, the batch shell alone, or all of them with the shell.

        SIGKILL to a job means: cancel it. False if there is nothing left to send it to.
        """
        wire = self._library.wire
        flags = (BATCH_SHELL if batch_shell else 0) | (WHOLE_JOB if whole else 0)
        try:
            if step is None:
                await self._library.call(lambda: wire.kill_job(job, number, flags), asked=f"signal job {job}")
            else:
                await self._library.call(lambda: wire.kill_step(job, step, number), asked=f"signal step {job}.{step}")
        except InvalidJob:
            return False
        return True

    async def requeue(self, job: int, *, hold: bool = False) -> bool:
        """Put a batch job back into the queue. False if Slurm does not know it; `NotBatch` if it has no script."""
        flags = JobFlag.REQUEUE_HOLD.value if hold else 0
        try:
            await self._library.call(lambda: self._library.wire.requeue(job, flags), asked=f"requeue job {job}")
        except InvalidJob:
            return False
        return True

    async def update(self, job: int, *, to: JobDescription) -> bool:
        """Change what is not None in the description. False if the job has ended."""
        bounds.check_job(to)
        try:
            await self._library.call(lambda: self._library.wire.update_job(job, to), asked=f"update job {job}")
        except InvalidJob:
            return False
        return True


def _somewhere(wanted: JobDescription) -> JobDescription:
    """Slurm takes no job that is nowhere, though one without a script runs nothing there."""
    return wanted if wanted.work_dir else replace(wanted, work_dir=_HOME)
