"""What is ended with the last job of a user on a node, as a program, among processes that are only played.

`ps` on its PATH prints a table, and `end-process`, which takes the place of kill, takes rows out of it.
"""

import subprocess
from pathlib import Path

import pytest
from tests.unit.operator.slurmcluster.clusters import cluster

from sunk.operator.slurmcluster.compute import scripts

ALICE, BOB = 2001, 2002
SCRIPT = scripts.around_jobs(cluster({"compute": {"ssh": {"enabled": True}}}))["sessions"]
PS = """\
#!/bin/bash
case $2 in
    ruid=,args=) awk '{ $1 = $2 = $4 = ""; print }' "$TABLE" ;;
    *) cat "$TABLE" ;;
esac
"""
KILL = """\
#!/bin/bash
echo "$*" >> "$KILLS"
shift
signal=$1
shift
for pid; do
    if [[ $signal == KILL ]] || ! grep -qx "$pid" "$STUBBORN"; then sed -i "/^$pid /d" "$TABLE"; fi
done
"""
SYSTEM = """\
1 0 0 Ss s6-svscan /run/s6
10 1 0 S s6-supervise sshd
11 10 0 S sshd: /usr/sbin/sshd -D -e [listener]
20 1 0 S s6-supervise slurmd
21 20 0 S /usr/sbin/slurmd -D
30 1 0 S s6-supervise web
"""
LOGIN = f"""\
100 11 0 Ss sshd-session: alice [priv]
101 100 {ALICE} S sshd-session: alice@pts/0
102 101 {ALICE} Ss -bash
103 102 {ALICE} S sudo -i
104 103 0 S -bash
"""


class Node:
    def __init__(self, folder: Path) -> None:
        self.folder, self.table, self.kills = folder, folder / "table", folder / "kills"
        for each in ("bin", "jobs", "host-keys"):
            (folder / each).mkdir()
        self.table.write_text(SYSTEM)
        (folder / "stubborn").write_text("")
        text = SCRIPT.replace("/run/sunk/jobs", str(folder / "jobs")).replace(
            "PATH=/usr/sbin", f"PATH={folder}/bin:/usr/sbin"
        )
        text = text.replace("/etc/ssh/host-keys", str(folder / "host-keys")).replace("kill -s", "end-process -s")
        text = text.replace("/etc/sunk/scripts/sick", str(folder / "bin/sick")).replace(
            "GENTLE=20 ROUNDS=100", "GENTLE=2 ROUNDS=5"
        )
        assert "kill -" not in text
        sick = f'#!/bin/bash\necho "$*" >> {folder}/sick\n'
        for name, script in {"sessions": text, "ps": PS, "end-process": KILL, "sick": sick}.items():
            (folder / "bin" / name).write_text(script)
            (folder / "bin" / name).chmod(0o755)

    def add(self, rows: str) -> None:
        self.table.write_text(self.table.read_text() + rows)

    def run(self, what: str, *, job: int = 7, uid: int | str = ALICE) -> subprocess.CompletedProcess[str]:
        variables = {"SLURM_JOB_ID": str(job), "SLURM_JOB_UID": str(uid), "TABLE": str(self.table)}
        variables |= {"KILLS": str(self.kills), "STUBBORN": str(self.folder / "stubborn")}
        command = [str(self.folder / "bin/sessions"), what]
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=120)

    @property
    def left(self) -> set[int]:
        mine = {int(line.split()[0]) for line in SYSTEM.splitlines()}
        return {int(line.split()[0]) for line in self.table.read_text().splitlines()} - mine


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_the_last_job_of_a_user_ends_what_the_user_has_left(node: Node) -> None:
    node.run("begin")
    node.add(LOGIN + f"200 1 {ALICE} S ./daemon\n201 1 {BOB} S ./daemon\n")
    ended = node.run("end")
    assert ended.returncode == 0
    assert node.left == {100, 201}, "root's part of sshd ends by itself; others go on"
    assert "ending 5 processes of user 2001, whose last job on this node was 7" in ended.stderr
    assert not list((node.folder / "jobs").iterdir())


def test_another_job_of_the_user_keeps_the_session(node: Node) -> None:
    node.run("begin", job=7)
    node.run("begin", job=8)
    node.add(LOGIN + "300 21 0 Sl slurmstepd: [8.extern]\n")
    assert node.run("end", job=7).returncode == 0
    assert not node.kills.exists()


def test_a_job_of_somebody_else_does_not(node: Node) -> None:
    node.run("begin", job=8, uid=BOB)
    node.add(LOGIN + "300 21 0 Sl slurmstepd: [8.0]\n")
    node.run("end", job=7)
    assert node.left == {100, 300}


def test_a_job_that_was_written_down_and_runs_no_more_does_not_count(node: Node) -> None:
    node.run("begin", job=8)
    node.add(LOGIN)
    node.run("end", job=7)
    assert node.left == {100}


def test_a_job_that_nobody_has_written_down_may_be_the_users(node: Node) -> None:
    node.add(LOGIN + "300 21 0 Sl slurmstepd: [12345.extern]\n")
    ended = node.run("end")
    assert ended.returncode == 0
    assert "nobody knows whose job 12345 is" in ended.stderr
    assert not node.kills.exists()


def test_nobody_passes_for_a_step_daemon(node: Node) -> None:
    node.add(f"400 1 {ALICE} S slurmstepd: [99.extern]\n401 400 {ALICE} S ./miner\n402 1 {ALICE} S s6-supervise web\n")
    node.run("end")
    assert node.left == set()


def test_processes_of_steps_and_of_services_are_left_alone(node: Node) -> None:
    node.run("begin", job=8, uid=BOB)
    node.add(
        f"300 21 0 Sl slurmstepd: [8.0]\n301 300 {ALICE} S ./task\n302 301 {ALICE} S ./child\n"
        f"310 21 0 S /usr/sbin/slurmstepd\n311 310 {ALICE} S ./just-starting\n"
        f"320 30 {ALICE} S ./web\n"
    )
    node.run("end")
    assert node.left == {300, 301, 302, 310, 311, 320}
    assert not node.kills.exists()


def test_who_does_not_listen_is_killed(node: Node) -> None:
    (node.folder / "stubborn").write_text("102\n")
    node.add(LOGIN)
    assert node.run("end").returncode == 0
    assert node.left == {100}
    assert [line.split()[1] for line in node.kills.read_text().splitlines()] == ["TERM", "KILL"]


def test_the_dead_are_dead(node: Node) -> None:
    node.add(f"500 100 {ALICE} Z [bash] <defunct>\n")
    assert node.run("end").returncode == 0
    assert not node.kills.exists()


def test_a_node_on_which_something_cannot_be_killed_is_sick(node: Node) -> None:
    (node.folder / "bin/end-process").write_text("#!/bin/bash\ntrue\n")
    node.add(LOGIN)
    ended = node.run("end")
    assert ended.returncode == 1
    assert (node.folder / "sick").read_text() == "processes of user 2001 do not end after job 7\n"
    assert "101" in ended.stderr


@pytest.mark.parametrize("uid", [0, 499, "", "x", "2001; reboot"])
def test_users_of_the_image_have_nothing_to_fear(node: Node, uid: int | str) -> None:
    node.add(LOGIN.replace(str(ALICE), str(uid or 0)))
    assert node.run("end", uid=uid).returncode == 0
    assert not node.kills.exists()


def test_a_pod_without_sshd_is_left_alone(node: Node) -> None:
    (node.folder / "host-keys").rmdir()
    node.add(LOGIN)
    assert node.run("end").returncode == 0
    assert not node.kills.exists()


def test_a_job_starts_also_where_nothing_can_be_written_down(node: Node) -> None:
    (node.folder / "jobs").rmdir()
    (node.folder / "jobs").write_text("")
    begun = node.run("begin")
    assert begun.returncode == 0
    assert "cannot write" in begun.stderr
