"""Whom the kernel ends when a container has no memory left: a task of a job, and not slurmd or s6 above it.

M3: Slurm gives every task the score 0. Kubernetes gives the container a high one if it asks for less than it may use.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.box import Box, Plan, box, network, wait_for

from sunk.local.artifacts import images

HIGH = 500
SLURMD = ("slurmd", "--", "-Z", "-N", "node", "--conf-server", "10.9.0.9:6817", "--conf", "CPUs=1 RealMemory=100")


@pytest.fixture
def plan(tmp_path: Path) -> Iterator[Plan]:
    with network() as net:
        yield Plan(image=images.root_file_system("slurm"), folder=tmp_path / "box", network=net)


def score(made: Box) -> int:
    """That of s6, which it hands on to all that it starts. Looked at from here, since a box takes a moment to be one."""
    first = Path(f"/proc/{made.first}")
    wait_for(lambda: (first / "comm").read_text() == "s6-svscan\n", what="s6")
    return int((first / "oom_score_adj").read_text())


def test_slurmd_and_s6_are_no_better_a_choice_than_a_task(plan: Plan) -> None:
    with box(plan, "choom", "-n", str(HIGH), "--", "/init", *SLURMD) as made:
        assert score(made) <= 0


def test_where_there_are_no_tasks_it_stays_as_kubernetes_has_it(plan: Plan) -> None:
    with box(plan, "choom", "-n", str(HIGH), "--", "/init", "sshd") as made:
        assert score(made) == HIGH
