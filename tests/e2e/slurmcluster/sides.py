"""What each side says about a node, and what people do on either: at a Node, at Slurm, or with `sunk`."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import json
from tests.e2e.slurmcluster.release import Release
from tests.integration.syncer.seen import Seen, read
from tests.waiting import eventually

from sunk.model import names
from sunk.model.contract import hooks

LASTING = "trap 'exit 0' USR1; until [ -e /tmp/over-$SLURM_JOB_ID ]; do sleep 1; done"
"""A job that ends well when it is told to, by `tell_over` or by a file where it runs, and not before."""
BEGINS = "date +%s.%N >> /tmp/begun-${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}"
"""What a script does first if its beginning is to be known (`begun`). Slurm has a job RUNNING while its prolog waits."""
REBOOT = "PhaseState"
STRICTLY = f"--extra={hooks.PLACEHOLDER}test"
"""For sbatch: as a placeholder job is told from others."""


# Kubernetes


def node_of(slurm: Release, name: str) -> str:
    return slurm.kubectl("get", "pod", name, "-o", "jsonpath={.spec.nodeName}")


def uid_of(slurm: Release, name: str) -> str:
    """Of a Pod; empty if there is none."""
    return slurm.kubectl("get", "pod", name, "--ignore-not-found", "-o", "jsonpath={.metadata.uid}")


def told(slurm: Release, node: str, kind: str) -> str:
    """The message of a condition of a Node; empty unless it holds."""
    found = json.decode(slurm.kubectl("get", "node", node, "-o", "json"))["status"]["conditions"]
    return next((one.get("message", "") for one in found if one["type"] == kind and one["status"] == "True"), "")


def cordon_of(slurm: Release, name: str) -> str | None:
    """The reason of the cordon that a Pod was told of."""
    found = json.decode(slurm.kubectl("get", "pod", name, "-o", "json"))["metadata"].get("annotations", {})
    reason: str | None = found.get(names.CORDON)
    return reason


def say(slurm: Release, name: str, kind: str, status: str, **fields: str) -> None:
    """Write a condition of a Pod, as people's own controllers do."""
    said = {"type": kind, "status": status, "lastTransitionTime": datetime.now(UTC).isoformat()} | fields
    body = json.encode({"status": {"conditions": [said]}}).decode()
    slurm.kubectl("patch", "pod", name, "--subresource=status", "--type=strategic", "-p", body)


@contextmanager
def cordoned(slurm: Release, node: str, reason: str) -> Iterator[None]:
    slurm.kubectl("annotate", "node", node, f"{names.CORDON_REASON}={reason}", "--overwrite")
    slurm.kubectl("cordon", node)
    try:
        yield
    finally:
        slurm.kubectl("uncordon", node)
        slurm.kubectl("annotate", "node", node, f"{names.CORDON_REASON}-")


# Slurm


def seen(slurm: Release, name: str) -> Seen:
    return read(slurm("scontrol", "show", "node", name))


def reasons(slurm: Release) -> dict[str, str]:
    """Why nodes are drained or down, by name."""
    lines = slurm("sinfo", "--noheader", "-N", "-p", "all", "-t", "drain,down", "-o", "%N|%E").splitlines()
    return dict(line.split("|", 1) for line in lines)


def update(slurm: Release, name: str, **fields: str) -> None:
    slurm("scontrol", "update", f"nodename={name}", *(f"{key}={value}" for key, value in fields.items()))


def inside(slurm: Release, name: str, *command: str) -> str:
    """Run a command as root where the jobs of a node run."""
    return slurm.kubectl("exec", name, "-c", names.SLURMD, "--", *command).strip()


def slurmd(slurm: Release, name: str) -> str:
    """The number of the process; -1 if there is none. Its children have the same name until they are what they become."""
    return inside(slurm, name, "s6-svstat", "-o", "pid", "/run/s6/slurmd")


def begun(slurm: Release, name: str, job: str) -> list[float]:
    """When scripts of a job that `BEGINS` began on a node: one for each run, or for each task of an array."""
    return [float(moment) for moment in inside(slurm, name, "sh", "-c", f"cat /tmp/begun-{job} || :").split()]


def begins(slurm: Release, name: str, job: str, *, times: int = 1, seconds: float = 120) -> None:
    """Wait until scripts of a job have begun so often on a node."""
    eventually(lambda: len(begun(slurm, name, job)) == times, seconds=seconds)


def end(slurm: Release, name: str, job: str) -> None:
    """Have a LASTING job of one node end, also if its script has yet to begin."""
    inside(slurm, name, "touch", f"/tmp/over-{job}")  # noqa: S108 - where the job looks for it
    slurm.ends(job)


def tell_over(slurm: Release, *jobs: str) -> None:
    """Have jobs that are LASTING come to their end. They are told until they hear it: a prolog that waits hears nothing."""
    for job in jobs:
        eventually(partial(_has_heard, slurm, job), seconds=240)


def _has_heard(slurm: Release, job: str) -> bool:
    state = slurm.job(job)
    if state == "RUNNING":
        slurm("sh", "-c", f"scancel --batch --signal=USR1 {job} || true")  # it may have ended this moment
    return state not in {"CONFIGURING", "RUNNING"}


def fate(slurm: Release, job: str) -> tuple[str, str]:
    """The state of a job, and how often it was restarted."""
    return slurm.job(job), slurm.job(job, "Restarts")


# Both


def looked(slurm: Release, name: str, *, seconds: float = 120) -> None:
    """Wait until the syncer has looked at a node after everything that was done to it before."""
    mark = f"look-{time.monotonic_ns()}"
    say(slurm, name, mark, "True")
    eventually(lambda: mark in seen(slurm, name).ours.get("conditions", {}), seconds=seconds)


@contextmanager
def rebooting(slurm: Release, name: str) -> Iterator[None]:
    """Have Slurm reboot a node, and return it to service in the end: its machine stays as it is."""
    slurm("scontrol", "reboot", name)
    try:
        yield
    finally:
        update(slurm, name, state="resume")
        eventually(lambda: name in slurm.idle())


def reboot_asked(slurm: Release, node: str) -> str:
    """The reason of the condition that asks for the reboot of a Node; empty if nobody asks."""
    found = json.decode(slurm.kubectl("get", "node", node, "-o", "json"))["status"]["conditions"]
    return next((one["reason"] for one in found if one["type"] == REBOOT and one["status"] == "True"), "")


def sunk(slurm: Release, *words: Any, seconds: float = 120) -> subprocess.CompletedProcess[str]:
    """What a person with a kubeconfig does."""
    program = Path(sys.executable).with_name("sunk")
    where = ("--namespace", slurm.kubectl.namespace, "--kubeconfig", str(slurm.kubectl.kubeconfig))
    command = [str(program), *map(str, words), *where]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
