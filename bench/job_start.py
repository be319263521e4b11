"""How long a job waits on an idle cluster: in Pods as the chart makes them, beside a bare slurmctld with Slurm's defaults.

Both take turns, job by job, on one machine. Times are taken where people log in, so what kubectl needs to get there is
not in them; when a batch job began it says itself, since Slurm tells whole seconds only. To begin with it brings up a
local cluster from nothing, which is measured too.
"""

from collections.abc import Callable
from os import getloadavg
from statistics import median

from bench.installed import installed
from bench.report import Figure, report
from sunk.local import slurm as slurms
from sunk.local.install import NAMESPACE, Tools
from sunk.local.progress import step
from sunk.local.slurm import Slurm

NAME = "bench-job-start"
ROUNDS = 20
NODES = 3
# Nanoseconds from before the command to what came of it.
WAITED_FOR = """\
until [ -z "$(squeue --noheader)" ]; do sleep 0.1; done
began=$(date +%s%N)
srun --ntasks=1 hostname > /dev/null
echo $(($(date +%s%N) - began))
"""
SUBMITTED = """\
until [ -z "$(squeue --noheader)" ]; do sleep 0.1; done
began=$(date +%s%N)
job=$(sbatch --parsable --chdir=/tmp --output=/dev/null \\
    --wrap='now=$(date +%s%N); exec scontrol update jobid=$SLURM_JOB_ID comment=$now')
until ran=$(scontrol show job "$job" | sed -n 's/.*Comment=//p'); [ -n "$ran" ]; do sleep 0.1; done
echo $((ran - began))
"""

Run = Callable[[str], str]


def in_pods(tools: Tools) -> Run:
    where = ("exec", "--namespace", NAMESPACE, "slurm-login-0", "--container", "sshd", "--", "bash", "-c")
    return lambda script: tools("kubectl", *where, script)


def bare(it: Slurm) -> Run:
    return lambda script: it.run("bash", "-c", script, timeout=60)


def turns(ours: Run, defaults: Run, script: str) -> tuple[list[float], list[float]]:
    """Seconds of each round, of both. The first is to get warm."""
    pairs = [(int(ours(script)) / 1e9, int(defaults(script)) / 1e9) for _ in range(ROUNDS + 1)][1:]
    return [one for one, _ in pairs], [other for _, other in pairs]


def figures(what: str, found: tuple[list[float], list[float]], *, goal: float) -> list[Figure]:
    ours, defaults = found
    return [
        Figure(f"{what}, in Pods", median(ours), "s", goal=goal),
        Figure("the same, the slowest", max(ours), "s"),
        Figure("the same, a bare slurmctld with Slurm's defaults", median(defaults), "s"),
    ]


def main() -> None:
    defaults = slurms.cluster(nodes=NODES, config={"SchedulerParameters": None})
    with installed(NAME, count=NODES) as (tools, whole), defaults as it:
        ours, other = in_pods(tools), bare(it)
        with step(f"Submit {ROUNDS} jobs, one after another"):
            submitted = turns(ours, other, SUBMITTED)
        with step(f"Wait for {ROUNDS} jobs, one after another"):
            waited = turns(ours, other, WAITED_FOR)
        load = getloadavg()[0]
    report(
        "job_start",
        [
            *figures("sbatch, from the command to its first line", submitted, goal=0.5),
            *figures("srun hostname, from the command to its end", waited, goal=1),
            Figure("from nothing to a job on three nodes, all built", whole, "s", goal=180),
            Figure("load average", load, ""),
        ],
    )


if __name__ == "__main__":
    main()
