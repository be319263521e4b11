"""Real slurmds and the product's own prolog: how long it takes, and what it costs an array of short tasks.

Slurm, operator, syncer and the API server are real, and so is the way from a job's start through `prelock.sh` to the lock.
Only the kubelets are played: a slurmd runs in a box of namespaces that has the name of its Pod, and the token that a
kubelet would have mounted there is put into the box.

Without the lock the prolog does nothing and the operator is stopped, since it locks Nodes of running jobs also if nobody
calls. So what the operator did before there were locks is missing on that side too.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from bench.locking.atonce import four_writes
from bench.locking.bare import BareLocks
from bench.locking.stage import ALICE, LockStage, staged, tokens
from bench.nodesets.stage import leading
from bench.report import Figure
from bench.sync.played import CLUSTER, NAMESPACE
from sunk.local import slurm as slurms
from sunk.local.slurm import Node, Slurm
from sunk.local.slurm.configuration import Settings
from sunk.model.contract import clusterobjects, hooks, lock
from sunk.operator.slurmcluster.compute import scripts
from sunk.operator.slurmcluster.slurmconf import timers
from sunk.operator.slurmcluster.slurmconf.conf import SCRIPTS

TASKS: Final = 400
TURNS: Final = 3
SINGLES: Final = 20
TIMEOUT: Final = 60
PATIENCE: Final = 600.0
PROLOG: Final = Path(__file__).with_name("prolog.sh")
CONFIG: Final[Settings] = {
    "Prolog": PROLOG.name,
    "PrologFlags": timers.FLAGS,
    "BatchStartTimeout": timers.needed(TIMEOUT),
}


def stage_of(count: int, *, version: str) -> AbstractAsyncContextManager[LockStage]:
    return staged(count, slurm_of=partial(slurm_of, version=version))


def slurm_of(members: Sequence[str], *, version: str) -> AbstractContextManager[Slurm]:
    """A slurmd for each of them, with room for one task at a time."""
    nodes = [Node(name, cpus=1, features=("crowd",)) for name in members]
    return slurms.cluster(nodes=nodes, version=version, config=CONFIG, files={PROLOG.name: PROLOG.read_text()})


async def equip(stage: LockStage) -> None:
    """Give each box what the Pod of its node would have: scripts, settings, token and CA."""
    _prologs(stage).mkdir(exist_ok=True)
    ours = Path(scripts.__file__).parent
    texts = {f"{SCRIPTS}/{name}": (ours / f"{name}.sh").read_text() for name in ("prelock", "hooks", "sick")}
    texts |= {f"{SCRIPTS}/hook-settings": _settings(), f"{hooks.FOLDER}/{hooks.CA}": stage.ca}
    for name, token in (await tokens(stage)).items():
        for inside, text in (texts | {f"{hooks.FOLDER}/{hooks.TOKEN}": token}).items():
            path = stage.syncer.slurm.path(inside, on=name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o700)


def _settings() -> str:
    """As `scripts.hook_settings` writes it for a SlurmCluster."""
    settings = {
        "server": f"{hooks.server_name(NAMESPACE, CLUSTER)}:{clusterobjects.HOOKS_PORT}",
        "timeout": str(TIMEOUT),
        "placeholder": hooks.PLACEHOLDER,
        "timed_out": hooks.TIMED_OUT,
        "unreached": hooks.UNREACHED,
    }
    return "".join(f"{key}='{value}'\n" for key, value in settings.items())


# The prolog by itself


async def prologs(stage: LockStage) -> list[Figure]:
    """One job at a time on an idle Node, and in turns the four writes."""
    await equip(stage)
    bare, last = BareLocks(stage.client, stage.nodes), stage.count - 1
    await bare.prepare()
    switch(stage, on=True)
    ours, writes, jobs = [], [], []
    for member in stage.members[: min(SINGLES, last)]:
        writes.append(await four_writes(bare, last))
        jobs.append(await stage.call("allocate", int, node=member))
        ours.append(await prolog(stage, jobs[-1], member))
    await stage.end(jobs)
    return [
        Figure(
            "the prolog of a job on an empty Node, to the four writes of its lock", median(ours) / median(writes), "×"
        ),
        Figure("the same, from its first line to its end, median", median(ours) * 1e3, "ms"),
        Figure("the same, worst", max(ours) * 1e3, "ms"),
        Figure("the four writes", median(writes) * 1e3, "ms"),
    ]


async def prolog(stage: LockStage, job: int, member: str) -> float:
    """Wait until the prolog of a job has ended, and give how long it took."""
    file, deadline = _prologs(stage) / f"{job}.{member}", time.monotonic() + PATIENCE
    while not (file.exists() and file.read_text().endswith("\n")):
        if time.monotonic() > deadline:
            raise SystemExit(f"the prolog of job {job} on {member} has not ended.{_log(stage, member)}")
        await asyncio.sleep(0.01)
    return _took(file)


def switch(stage: LockStage, *, on: bool) -> None:
    file = stage.syncer.slurm.layout.home / "locking"
    file.touch() if on else file.unlink(missing_ok=True)


def _took(file: Path) -> float:
    began, ended = map(float, file.read_text().split())
    return ended - began


def _prologs(stage: LockStage) -> Path:
    return stage.syncer.slurm.layout.home / "prologs"


def _log(stage: LockStage, member: str) -> str:
    return f" The last words of its slurmd:\n{stage.syncer.slurm.log(member)[-2000:]}"


# An array


async def arrays(stage: LockStage) -> list[Figure]:
    """Run an array of short tasks without and with the lock, in turns."""
    without, locked, waited = [], [], []
    for turn in range(TURNS):
        await asyncio.to_thread(stage.operator.stop)
        switch(stage, on=False)
        without.append(await array(stage, f"{turn}-without"))
        await asyncio.to_thread(stage.operator.start)
        await leading(stage.client, namespace=NAMESPACE)
        await stage.all_are(lock.UNLOCKED)
        switch(stage, on=True)
        before = set(_prologs(stage).iterdir())
        locked.append(await array(stage, f"{turn}-locked"))
        waited += [_took(file) for file in set(_prologs(stage).iterdir()) - before]
        await stage.all_are(lock.UNLOCKED)
    what = f"array of {TASKS} tasks of a second on {stage.count} nodes"
    return [
        Figure(f"{what}, time with the lock to without", median(locked) / median(without), "×"),
        Figure("the same, with the lock", TASKS / median(locked), "tasks a second"),
        Figure("the same, without", TASKS / median(without), "tasks a second"),
        Figure("a prolog among them, median", median(waited) * 1e3, "ms"),
        Figure("the same, worst", max(waited) * 1e3, "ms"),
    ]


async def array(stage: LockStage, name: str) -> float:
    """Seconds from the command to the end of the last task, by what the tasks write down themselves."""
    slurm = stage.syncer.slurm
    ended = slurm.layout.home / ALICE.name / f"ended-{name}"
    script = f"sleep 1; date +%s.%N >> /home/{ALICE.name}/{ended.name}"
    began, deadline = time.time(), time.monotonic() + PATIENCE
    options = (f"--array=1-{TASKS}", "--ntasks=1", "--chdir=/tmp", "--output=/dev/null")
    await asyncio.to_thread(slurm.run, "sbatch", *options, f"--wrap={script}", uid=ALICE.uid)
    while len(_lines(ended)) < TASKS:
        if time.monotonic() > deadline:
            raise SystemExit(f"only {len(_lines(ended))} of {TASKS} tasks have ended.{_log(stage, stage.members[0])}")
        await asyncio.sleep(0.25)
    drained = [node for node, state in (await asyncio.to_thread(slurm.states)).items() if "DRAIN" in state]
    if drained:
        raise SystemExit(f"nodes were drained by the array: {drained}.{_log(stage, drained[0])}")
    return max(map(float, _lines(ended))) - began


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []
