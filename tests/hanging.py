"""A slurmctld that hangs, as it does in a plugin or over a name that is not found.

The plugin of a job that is changed runs with the locks for writing held: reads of nodes are not answered, and pings are,
by 24.11 always and by 26.05 until its threads are used up. (That of a job that is submitted would not do: 26.05 calls it
without those locks.)
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from sunk.local.slurm import Slurm
from sunk.local.slurm.configuration import CONTROLLER

_ALICE: Final = 1001
_LONGEST: Final = 180
_NAME: Final = "hang"
_HANGS: Final = "/run/slurmctld/hangs"
_ENDS: Final = "/run/slurmctld/hang-ends"
_MODIFIED: Final = f"""
local function over()
    local file = io.open("{_ENDS}")
    if file then file:close() end
    return file ~= nil
end
function slurm_job_submit() return slurm.SUCCESS end
function slurm_job_modify(job)
    if job.name == "{_NAME}" then
        io.open("{_HANGS}", "w"):close()
        local last = os.time() + {_LONGEST}
        while os.time() < last and not over() do os.execute("sleep 0.1") end
    end
    return slurm.SUCCESS
end
"""
SLURM: Final[dict[str, Any]] = {"config": {"JobSubmitPlugins": "lua"}, "files": {"job_submit.lua": _MODIFIED}}
"""What `sunk.local.slurm.cluster` is to be given, so that its slurmctld can hang."""


@contextmanager
def hanging(slurm: Slurm) -> Iterator[None]:
    """Have slurmctld hang for as long as this lasts."""
    slurm.run("rm", "-f", _HANGS, _ENDS, on=CONTROLLER)
    words = ("sbatch", "--hold", "--parsable", "--output=/dev/null", "--wrap=true")
    job = slurm.run(*words, uid=_ALICE).strip()
    changing = _change(slurm, job)
    try:
        yield
    finally:
        slurm.run("touch", _ENDS, on=CONTROLLER)
        changing.communicate(timeout=_LONGEST)
        slurm.run("scancel", job)


def _change(slurm: Slurm, job: str) -> "subprocess.Popen[str]":
    changing = slurm.spawn("scontrol", "update", f"JobId={job}", f"JobName={_NAME}", uid=_ALICE)
    began = f"until [ -e {_HANGS} ]; do sleep 0.1; done"
    slurm.run("sh", "-c", began, on=CONTROLLER, timeout=_LONGEST)
    return changing
