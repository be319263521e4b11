"""Which way of making Slurm nodes serves power saving, where "power" is a Pod: Slurm asks for it and lets it go.

M15: a node that brings itself in, one that was created before, and one with a line in slurm.conf do alike, if slurmd is
started with `-b`. docs/decisions/0008-dynamic-nodes.md builds on it.
"""

import re
import signal
import time

import pytest
from tests.waiting import eventually

from sunk.local import slurm as slurms
from sunk.local.slurm import Node, Slurm
from sunk.local.slurm.configuration import CONTROLLER, PARTITIONS, Settings

LINE = "NodeName=c1 CPUs=2 RealMemory=1000 State=CLOUD"
SOON = 240.0
"""Slurm looks every half minute whether the nodes of a job are up."""
TOLD = "/tmp/told"  # noqa: S108 - on a machine that is only ours
SAVING: Settings = {
    "SuspendProgram": "/etc/slurm/suspend",
    "ResumeProgram": "/etc/slurm/resume",
    "SuspendTime": 2,
    "SuspendTimeout": 2,
    "ResumeTimeout": 300,
}
PROGRAMS = {name: f'#!/bin/sh\necho "{name} $*" >> {TOLD}\n' for name in ("suspend", "resume")}


def told(it: Slurm) -> list[str]:
    """What Slurm has asked for so far."""
    file = it.path(TOLD, on=CONTROLLER)
    return file.read_text().splitlines() if file.exists() else []


def submit(it: Slurm) -> str:
    return it.run("sbatch", "--parsable", "--output=/dev/null", "-w", "c1", "--wrap=hostname").strip()


def shown(it: Slurm, job: str) -> str:
    return it.run("scontrol", "show", "job", job)


def completes(it: Slurm, job: str) -> None:
    eventually(lambda: "JobState=COMPLETED" in shown(it, job), seconds=SOON)
    assert "Restarts=0" in shown(it, job)


def let_go(it: Slurm) -> None:
    """Wait until Slurm has no use for the node, and take it away."""
    eventually(lambda: told(it)[-1:] == ["suspend c1"], seconds=SOON)
    it.kill("c1")
    it.expect("c1", "POWERED_DOWN", without=())


def begun(it: Slurm) -> list[str]:
    """When the slurmd that has registered last was started."""
    return re.findall(r"SlurmdStartTime=\S+", it.run("scontrol", "show", "node", "c1"))


def asked_for(it: Slurm) -> bool:
    return told(it)[-1:] == ["resume c1"]


@pytest.mark.full
@pytest.mark.parametrize("way", ["dynamic", "created", "line"])
def test_a_node_is_let_go_when_it_is_idle_and_asked_for_by_a_job(way: str) -> None:
    node = Node("c1", dynamic=way != "line", options=("-b",))
    lines = (LINE, *PARTITIONS) if way == "line" else PARTITIONS
    with slurms.cluster(config=SAVING, files=PROGRAMS, lines=lines) as it:
        if way == "dynamic":
            it.add(node)
        else:
            if way == "created":
                it.run("scontrol", "create", *LINE.split(), on=CONTROLLER)
            first = submit(it)
            eventually(lambda: asked_for(it), seconds=SOON)
            it.add(node)
            completes(it, first)
        let_go(it)
        # It stays what it was, whatever becomes of slurmctld.
        it.stop(CONTROLLER)
        it.start(CONTROLLER)
        it.expect("c1", "POWERED_DOWN", without=())
        second = submit(it)
        eventually(lambda: asked_for(it), seconds=SOON)
        it.start("c1")
        completes(it, second)


@pytest.mark.full
def test_a_slurmd_that_does_not_say_it_has_just_booted_is_not_believed_to_be_back() -> None:
    """A Pod has the boot time of its machine, which is before Slurm asked for it; `-b` says that of slurmd instead."""
    with slurms.cluster(config={**SAVING, "ResumeTimeout": 10}, files=PROGRAMS) as it:
        it.add("c1")
        let_go(it)
        job = submit(it)
        eventually(lambda: asked_for(it), seconds=SOON)
        it.machines.start("c1")
        it.expect("c1", "DOWN", without=(), timeout=SOON)
        assert "Restarts=1" in shown(it, job)
        assert "node c1 not resumed by ResumeTimeout(10), setting DOWN and POWERED_DOWN" in it.log(CONTROLLER)


@pytest.mark.parametrize("service", [1, 2])
def test_a_slurmd_that_always_says_so_costs_jobs_when_it_dies_unless_return_to_service_is_2(service: int) -> None:
    with slurms.cluster(nodes=[Node("c1", options=("-b",))], config={"ReturnToService": service}) as it:
        begins = "touch /home/begun; sleep 600"
        job = it.run("sbatch", "--parsable", "--output=/dev/null", "-w", "c1", f"--wrap={begins}").strip()
        # Slurm shows it as running before slurmd has it, and a slurmd that dies before it has loses it.
        it.machines.wait((it.layout.home / "begun").exists, what="the begin of the job")
        it.expect("c1", "MIXED")
        before = begun(it)
        time.sleep(2)  # Slurm counts in seconds, and compares when it heard of the node with when it booted
        it.stop("c1", with_signal=signal.SIGKILL)
        it.machines.start("c1")
        eventually(lambda: begun(it) != before, seconds=SOON)
        if service == 1:
            it.expect("c1", "DOWN", without=())
            assert "Reason=Node unexpectedly rebooted" in it.run("scontrol", "show", "node", "c1")
        else:
            it.expect("c1", "MIXED")
            assert "JobState=RUNNING" in shown(it, job)
            assert "Restarts=0" in shown(it, job)


@pytest.mark.full
def test_a_node_that_was_created_before_its_pod_is_lost_without_power_saving() -> None:
    """When slurmctld starts it then wants the addresses of all nodes, and the name of a Pod to come leads nowhere."""
    with slurms.cluster() as it:
        it.run("scontrol", "create", *LINE.split(), on=CONTROLLER)
        assert "c1" in it.states()
        it.stop(CONTROLLER)
        it.machines.start(CONTROLLER)
        eventually(lambda: it.attempt("scontrol", "show", "nodes", on=CONTROLLER).code == 0, seconds=SOON)
        assert "c1" not in it.states()
        assert "_set_node_addrs: failure on c1" in it.log(CONTROLLER)
