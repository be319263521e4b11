"""`sunk slurm` as people and programs use it."""

import asyncio
import os
import re
import subprocess
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from tests.slurm.asking import until, until_saved
from tests.slurm.terminal import terminal

from sunk.local.slurm.remote import Remote
from sunk.slurm import rpcs
from sunk.slurm.libslurm.description import JobDescription
from sunk.slurm.libslurm.library import Library
from sunk.slurm.orders.jobs import JobOrders
from sunk.slurm.orders.nodes import Orders

ALICE = 1001
SUNK = "/opt/sunk/bin/sunk"
ESCAPE = "\x1b"


def sunk(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [SUNK, "slurm", *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, env={**os.environ, **variables}, check=False
    )


def shown(*words: str) -> list[str]:
    done = sunk(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def decoded(*words: str) -> Any:
    return msgspec.json.decode("\n".join(shown(*words, "--json")))


def line(lines: list[str], start: str) -> str:
    return next(each for each in lines if each.startswith(start))


def held(name: str) -> JobDescription:
    script = "#!/bin/sh\n"
    return JobDescription(
        name=name, script=script, user_id=ALICE, group_id=ALICE, min_nodes=1, memory=10, priority=0, time_limit=90
    )


async def test_nodes_are_shown_with_who_drained_them_and_why(orders: Orders) -> None:
    await orders.drain(["n1"], reason="bad [fan]\x1b[31m, very")
    row = line(shown("nodes"), "n1 ")
    assert "IDLE+DRAIN " in row
    assert "bad [fan] [31m, very  slurm " in row
    assert row.split()[2:4] == ["0/2", "0.0/1.0"]
    assert "gpu:h100 0/8" in line(shown("nodes"), "g1 ")
    assert shown("nodes")[-1] == "3 nodes: 2 idle, 1 drained"


async def test_nodes_are_chosen_by_name_state_and_partition(orders: Orders) -> None:
    await orders.drain(["n2"], reason="k8s: test")
    assert [each["name"] for each in decoded("nodes", "n[1-2]")] == ["n1", "n2"]
    assert [each["name"] for each in decoded("nodes", "--state", "drained,down")] == ["n2"]
    assert [each["name"] for each in decoded("nodes", "--state", "IDLE+drain")] == ["n2"]
    assert decoded("nodes", "--partition", "none") == []


def test_records_for_programs_have_every_field_by_its_name() -> None:
    (found,) = decoded("nodes", "g1")
    assert (found["cpus"], found["memory"], found["partitions"]) == (64, 512000, ["all"])
    assert found["state"][0] == "IDLE"
    assert found["features"] == ["h100", "nvlink"]
    (partition,) = decoded("partitions")
    assert (partition["name"], partition["node_count"]) == ("all", 3)
    statistics = decoded("stats")
    assert "REQUEST_NODE_INFO" in {each["name"] for each in statistics["rpcs"]}
    assert "slurm" in {each["name"] for each in statistics["callers"]}


async def test_jobs_are_shown_as_squeue_names_them(jobs: JobOrders, cluster: Remote) -> None:
    given = await jobs.submit(held("hold [bold]\nme"))
    array = int(cluster.run("sbatch", "--parsable", "--hold", "--array=1-9%2", "--wrap", "true", uid=ALICE))
    het = int(cluster.run("sbatch", "--parsable", "--hold", "-n1", "--wrap=true", ":", "-n1", uid=ALICE))
    lines = shown("jobs", "--user", "alice")
    row = line(lines, f"{given.job} ")
    assert "hold [bold] me" in row
    assert "1:30:00" in row
    assert row.split()[-1] == "(JobHeldUser)"
    assert line(lines, f"{array}_[1-9%2] ").split()[2] == "alice"
    assert line(lines, f"{het}+1 ")
    assert shown("jobs", "--user", "4711")[-1] == "0 jobs"
    assert {each["id"] for each in decoded("jobs", "-t", "pending")} == {given.job, array, het, het + 1}


async def test_a_running_job_shows_its_nodes_and_an_ended_one_only_if_asked_for(jobs: JobOrders) -> None:
    given = await jobs.allocate(JobDescription(name="bare", min_nodes=1, memory=10, wanted_nodes="n2"))
    row = line(shown("jobs"), f"{given.job} ")
    assert row.split()[-1] == "n2"
    assert "RUNNING" in row
    await jobs.cancel(given.job)

    async def ended() -> bool:
        return given.job not in {each["id"] for each in await asyncio.to_thread(decoded, "jobs")}

    await until(ended)
    assert "CANCELLED" in line(shown("jobs", "--all"), f"{given.job} ")
    assert given.job in {each["id"] for each in decoded("jobs", "--state", "cancelled")}


def test_partitions_count_what_their_nodes_do() -> None:
    assert line(shown("partitions"), "all* ").split()[:8] == ["all*", "UP", "unlimited", "1", "3", "3", "0", "0"]


def test_statistics_are_those_of_sdiag(cluster: Remote) -> None:
    text = "\n".join(shown("stats", "--top", "3"))
    assert "Main scheduler" in text
    assert "DBD agent queue size" in text
    assert "more" in text
    told, found = cluster.run("sdiag"), decoded("stats")
    theirs = _named(told)
    ours = {each["key"]: each["name"] for each in found["rpcs"]}
    assert {key: ours[key] for key in theirs} == theirs
    assert _reasons(told, "Main scheduler exit") == len(found["cycle_exits"]) == len(rpcs.MAIN_EXITS)
    assert _reasons(told, "Backfill exit") == len(found["backfill_exits"]) == len(rpcs.BACKFILL_EXITS)


def _reasons(text: str, title: str) -> int:
    """How many lines stand under a title."""
    found = re.search(rf"^{title}:?\n((?:\t.*\n)+)", text, re.MULTILINE)
    return len(found[1].splitlines()) if found else 0


def _named(text: str) -> dict[int, str]:
    """Requests by number, from lines such as `REQUEST_PING  ( 1008) count:1 …`."""
    return {
        int(number): name for name, number in re.findall(r"^\s+([A-Z_]+)\s+\(\s*(\d+)\) count:", text, re.MULTILINE)
    }


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("nodes", "n1", "ghost"), 1, "no node called ghost"),
        (("nodes", "n[1-"), 2, r"n[1- is not a list of nodes"),
        (("nodes", "--state", "tired"), 2, "TIRED is not a Slurm state"),
        (("jobs", "--user", "nobody-here"), 2, "no user nobody-here"),
    ],
)
def test_what_cannot_be_shown_is_told_in_a_sentence(words: tuple[str, ...], code: int, said: str) -> None:
    done = sunk(*words)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_configuration_it_says_where_one_is_looked_for() -> None:
    done = sunk("nodes", SLURM_CONF="/nowhere/slurm.conf")
    assert done.returncode == 2
    assert "no Slurm configuration at /nowhere/slurm.conf" in done.stderr


def test_colours_are_for_terminals_and_for_who_wants_them() -> None:
    green = f"{ESCAPE}[32mIDLE"
    with terminal(SUNK, "slurm", "nodes", "n1") as seen:
        assert green in seen.until("1 node")
    with terminal("env", "NO_COLOR=1", SUNK, "slurm", "nodes", "n1") as seen:
        assert green not in seen.until("1 node")
    assert ESCAPE not in sunk("nodes").stdout


async def test_a_watch_shows_changes_and_the_loss_of_slurmctld_and_ends_when_told(
    orders: Orders, library: Library, cluster: Remote
) -> None:
    with terminal(SUNK, "slurm", "nodes", "--watch") as seen:
        await asyncio.to_thread(seen.until, "3 nodes")
        await orders.drain(["n1"], reason="seen at once")
        await asyncio.to_thread(seen.until, "seen at once")
        await until_saved(cluster, "seen at once")
        await asyncio.to_thread(cluster.stop, "controller", with_signal=9)
        try:
            assert "No answer since" in await asyncio.to_thread(seen.until, "the last known state")
            done = await asyncio.to_thread(sunk, "nodes")
            assert (done.returncode, done.stdout) == (2, "")
            assert "slurmctld does not answer" in done.stderr
            assert await asyncio.to_thread(seen.interrupt) == 0
            assert f"{ESCAPE}[?1049l" in seen.rest(), "the terminal is left as it was"
        finally:
            await asyncio.to_thread(cluster.start, "controller")
    await until(library.ping)


async def test_a_watch_by_a_program_gives_one_line_a_change(orders: Orders) -> None:
    words = (SUNK, "slurm", "nodes", "n1", "--watch", "--json")
    # A node keeps the reason of a drain that is over, and another test tries how long one may be.
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE, limit=1 << 20)
    assert process.stdout
    found = [msgspec.json.decode(await process.stdout.readline())]
    await orders.drain(["n1"], reason="a change")
    async with asyncio.timeout(120):
        while found[-1]["rows"][0]["reason"] != "a change":
            found.append(msgspec.json.decode(await process.stdout.readline()))
    process.terminate()
    await process.wait()
    assert {each["trouble"] for each in found} == {""}
    assert all(one["rows"] != other["rows"] for one, other in pairwise(found)), "a line without a change"
