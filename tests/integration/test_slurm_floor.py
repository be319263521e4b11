"""The Slurm on which tests stand: it runs jobs, its daemons die and return, and nothing of it stays."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.footprint import take
from tests.versions import BOTH
from tests.waiting import eventually

from sunk.local import slurm as slurms
from sunk.local.slurm import Node, Slurm, many_nodes, pytest_inside, starting
from sunk.local.slurm.configuration import Settings
from sunk.model.refusal import Refusal

pytestmark = pytest.mark.timeout(900)

ALICE = 1001
ABANDONED = """
import time
from sunk.local import slurm
with slurm.cluster(nodes=1) as it:
    print(it.layout.cluster, flush=True)
    time.sleep(600)
"""
INNER = """
import ctypes, os
import pytest
from sunk.local.slurm.remote import Remote
from sunk.local.slurm.configuration import Settings
from sunk.model.refusal import Refusal

def test_libslurm_reaches_the_cluster():
    # Its plugins look for their symbols in what is loaded globally.
    library = ctypes.CDLL("{library}", mode=ctypes.RTLD_GLOBAL)
    library.slurm_init(None)
    assert library.slurm_ping(0) == 0

async def test_root_is_not_needed():
    assert os.getuid() == 64030

def test_a_daemon_can_be_stopped_from_in_here():
    cluster = Remote()
    cluster.stop("controller")
    assert not cluster.answers()
    cluster.start("controller")
    cluster.expect("n1", "IDLE", without=())

def test_a_refusal_comes_through():
    with pytest.raises(Refusal, match="no machine nobody"):
        Remote().kill("nobody")
"""
LIBRARIES = {"24.11": "libslurm.so.42", "26.05": "libslurm.so.45"}


@pytest.fixture
def own() -> Iterator[Slurm]:
    """For a test that breaks something."""
    with slurms.cluster(nodes=2) as started:
        yield started


def test_a_job_runs_on_three_nodes(slurm: Slurm) -> None:
    # By name: another test may have added a node, and the job of one before may not be over on all of these.
    assert sorted(slurm.run("srun", "-N3", "-w", "n[1-3]", "hostname", uid=ALICE).split()) == ["n1", "n2", "n3"]
    reaped = lambda: "defunct" not in slurm.run("ps", "ax", on="n1")  # noqa: E731 (said once)
    slurm.machines.wait(reaped, what="the end of what slurmstepd leaves to process 1")


def test_a_batch_job_of_a_person_writes_to_a_home_that_all_machines_share(slurm: Slurm) -> None:
    # It looks after 2, 10 and 42 seconds.
    words = ("sbatch", "--wait", "--output=/home/alice/out", "--wrap", "id -un; hostname")
    slurm.run(*words, uid=ALICE, timeout=180)
    name, host = (slurm.layout.home / "alice" / "out").read_text().split()
    assert name == "alice"
    assert host in slurm.states()


def test_a_node_that_comes_later_brings_its_own_size_features_and_gpus(slurm: Slurm) -> None:
    slurm.add(Node("g1", cpus=64, memory=512000, features=("h100",), gres="gpu:h100:8"))
    words = ("--constraint=h100", "--gres=gpu:h100:2", "sh", "-c", "echo $SLURMD_NODENAME $SLURM_GPUS_ON_NODE")
    assert slurm.run("srun", "-c48", *words).split() == ["g1", "2"]


def test_no_packet_finds_a_way_out(slurm: Slurm) -> None:
    for machine in ("controller", "login", "n1"):
        assert "default" not in slurm.run("ip", "route", on=machine)
    answer = slurm.attempt("curl", "--max-time", "3", "http://192.0.2.1", on="n1")
    assert answer.code
    assert slurm.python("-c", "import socket; print(socket.if_nameindex())") == "[(1, 'lo'), (2, 'eth0')]\n"


def test_settings_and_prologs_of_a_test_reach_the_nodes() -> None:
    prolog = "#!/bin/sh\necho $SLURM_JOB_ID $SLURMD_NODENAME >> /home/prolog\n"
    config: Settings = {"Prolog": "prolog.sh", "killwait": 77, "DefMemPerCPU": None}
    with slurms.cluster(nodes=["a"], config=config, files={"prolog.sh": prolog}) as it:
        assert "KillWait                = 77 sec" in it.run("scontrol", "show", "config")
        it.run("srun", "true")
        assert (it.layout.home / "prolog").read_text() == "1 a\n"
        it.configure(config={"KillWait": 78})
        # sackd reads it too, and for that moment nobody signs.
        eventually(lambda: "KillWait                = 78 sec" in it.attempt("scontrol", "show", "config").out)


def test_a_job_outlives_its_slurmd(own: Slurm) -> None:
    script = "echo begun; sleep 2; echo ended"
    own.run("sbatch", "--nodelist=n1", "--output=/home/alice/out", "--wrap", script, uid=ALICE)
    own.machines.wait((own.layout.home / "alice" / "out").exists, what="the job's output")
    own.stop("n1", with_signal=signal.SIGKILL)
    own.start("n1")
    own.machines.wait(lambda: not own.run("squeue", "--noheader"), what="the end of the job")
    assert (own.layout.home / "alice" / "out").read_text() == "begun\nended\n"


def test_a_lost_machine_takes_its_processes_along_and_returns(own: Slurm) -> None:
    running = own.spawn("srun", "--nodelist=n2", "sleep", "600")
    own.expect("n2", "ALLOCATED", "MIXED")
    own.kill("n2")
    assert not [words for words in _command_lines(own) if words.endswith("sleep 600") and "srun" not in words]
    own.run("scancel", "--user=root")
    own.start("n2")
    own.expect("n2", "IDLE", without=("COMPLETING", "NOT_RESPONDING"))
    assert own.run("srun", "--nodelist=n2", "hostname") == "n2\n"
    running.communicate(timeout=120)


def _command_lines(it: Slurm) -> list[str]:
    from sunk.local.kubernetes import cgroups

    found = []
    for process in cgroups.processes(it.layout.cluster):
        with suppress(OSError):  # it ends just now
            found.append(Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip())
    return found


@pytest.mark.full
def test_slurm_notices_a_lost_node_and_its_return() -> None:
    with slurms.cluster(nodes=1, config={"SlurmdTimeout": 5}) as it:
        it.kill("n1")
        it.expect("n1", "DOWN", without=(), timeout=240)
        it.start("n1")
        assert it.run("srun", "hostname") == "n1\n"


@pytest.mark.parametrize("version", BOTH)
def test_slurmctld_killed_at_once_knows_everything_again(version: str) -> None:
    with slurms.cluster(nodes=2, version=version) as it:
        it.run("scontrol", "update", "nodename=n1", "state=drain", "reason=bad fan", "extra={}")
        job = it.run("sbatch", "--parsable", "--wrap", "sleep 600").strip()
        it.expect("n2", "ALLOCATED", "MIXED")
        saved = it.path("/var/spool/slurmctld/job_state", on="controller")
        # With its node, so after it was started; slurmctld writes that down within a few seconds.
        it.machines.wait(lambda: b"n2\0" in _content(saved), what="a saved state")
        for end in (it.kill, lambda name: it.stop(name, with_signal=signal.SIGKILL)):
            end("controller")
            assert not it.answers()
            it.start("controller")
            # It may have to hear from its nodes first.
            eventually(lambda: it.states()["n1"] >= {"IDLE", "DRAIN"})
            assert "Reason=bad fan" in it.run("scontrol", "show", "node", "n1")
            assert it.run("squeue", "--noheader", "--format=%i %T").split() == [job, "RUNNING"]


def _content(file: Path) -> bytes:
    """What is in it; nothing while slurmctld puts another in its place."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""


@pytest.mark.parametrize("version", BOTH)
def test_two_clusters_run_side_by_side(version: str, slurm: Slurm) -> None:
    with slurms.cluster(nodes=1, version=version) as other:
        other.run("scontrol", "update", "nodename=n1", "state=drain", "reason=here only")
        assert "DRAIN" in other.states()["n1"]
        assert "DRAIN" not in slurm.states()["n1"]
        other.kill("controller")
        assert slurm.run("srun", "--nodelist=n1", "hostname") == "n1\n"
    assert slurm.answers()


@pytest.mark.parametrize("version", BOTH)
def test_tests_run_inside_our_image_and_steer_the_cluster(version: str) -> None:
    with slurms.cluster(nodes=1, version=version) as it:
        (it.layout.home / "test_inner.py").write_text(INNER.format(library=LIBRARIES[version]))
        results = pytest_inside(it, "/home/test_inner.py", "tests/unit/local/slurm/test_slurm.py")
        assert {each.outcome for each in results} == {"passed"}
        assert len([each for each in results if "inner" in each.name]) == 4


def test_what_fails_inside_is_told_by_name_and_reason(slurm: Slurm) -> None:
    text = "def test_good(): pass\n\ndef test_bad():\n    found = 41\n    assert found == 42\n"
    (slurm.layout.home / "test_failing.py").write_text(text)
    with pytest.raises(Refusal, match=r"(?s)of 2 tests inside the image 1 did not pass.*test_bad.*41 == 42"):
        pytest_inside(slurm, "/home/test_failing.py")
    with pytest.raises(Refusal, match="could not run /home/nothing"):
        pytest_inside(slurm, "/home/nothing")


@pytest.mark.parametrize("version", BOTH)
def test_two_thousand_nodes_can_be_read_and_drained(version: str) -> None:
    with many_nodes(2000, version=version) as it:
        summary = it.run("sinfo", "--noheader", "--Node", "--format=%N %T")
        assert len([line for line in summary.splitlines() if line.startswith("sim")]) == 2000
        it.run("scontrol", "update", "nodename=sim[0001-1000]", "state=drain", "reason=many")
        drained = [name for name, state in it.states().items() if "DRAIN" in state]
        assert len(drained) == 1000
        it.run("scontrol", "update", "nodename=sim[0001-1000]", "state=undrain")
        assert not [name for name, state in it.states().items() if "DRAIN" in state]


@pytest.mark.full
def test_fifty_nodes_run_a_job_together() -> None:
    with slurms.cluster(nodes=50) as it:
        assert len(it.run("srun", "-N50", "hostname", timeout=240).split()) == 50


def test_leaving_the_block_leaves_nothing(slurm: Slurm) -> None:
    with slurms.cluster(nodes=2) as it:
        it.python("-c", "pass")
        it.spawn("srun", "sleep", "600")
        during = take(it.layout.cluster)
        assert all((during.processes, during.namespaces, during.control_groups))
    assert _nothing_is_left(it.layout.cluster)
    assert slurm.answers()


def test_a_block_that_fails_leaves_nothing_but_the_last_words_of_the_daemons() -> None:
    names: list[str] = []

    def fail() -> None:
        with slurms.cluster(nodes=1) as it:
            names.append(it.layout.cluster)
            it.run("false")

    with pytest.raises(Refusal, match="`false` on login exited with code 1") as raised:
        fail()
    assert "Last words of n1" in raised.value.__notes__[0]
    assert _nothing_is_left(names[0])


def test_a_killed_test_run_is_cleared_away_by_the_next_start(slurm: Slurm) -> None:
    with subprocess.Popen([sys.executable, "-c", ABANDONED], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout
        name = owner.stdout.readline().strip()
        # Whoever else starts a cluster meanwhile would clear it away before it was looked at.
        with starting.alone():
            owner.kill()
            owner.wait()
            assert take(name).processes
    with slurms.cluster():
        assert _nothing_is_left(name)
    assert slurm.answers(), "a cluster whose owner lives was cleared away"


@pytest.mark.parametrize(
    "moment", [0.3, *(pytest.param(each, marks=pytest.mark.full) for each in (0.1, 0.2, 0.5, 0.8))]
)
def test_a_start_killed_halfway_is_cleared_away(moment: float) -> None:
    with subprocess.Popen([sys.executable, "-c", ABANDONED], stdout=subprocess.DEVNULL) as owner:
        while not (found := _owned_by(owner.pid)):
            time.sleep(0.01)
        time.sleep(moment)
        owner.kill()

    def cleared() -> bool:
        starting.clear_abandoned()
        return not (starting.folders() / found).exists()

    # A child that it was about to start may hold its lock for a moment longer.
    eventually(cleared)
    assert _nothing_is_left(found)


def _owned_by(process: int) -> str:
    """The cluster of a process, if it has begun one: others come and go meanwhile."""
    for mark in starting.folders().glob(f"slurm-*/{starting.OWNER}"):
        with suppress(FileNotFoundError):
            if mark.read_text().strip() == str(process):
                return mark.parent.name
    return ""


def _nothing_is_left(name: str) -> bool:
    assert take(name) == take("slurm-of-nobody")
    return not (starting.folders() / name).exists()


def test_a_daemon_that_does_not_start_is_told_with_its_last_words() -> None:
    with (
        pytest.raises(Refusal, match=r"(?s)controller ended by itself.*Last words of controller.*nonesuch"),
        slurms.cluster(config={"PriorityType": "priority/nonesuch"}),
    ):
        pass


def test_a_state_that_does_not_come_is_told_with_the_one_that_is(slurm: Slurm) -> None:
    with pytest.raises(Refusal, match=r"n1 is .*IDLE.*timed out after 0\.2 s waiting for DOWN"):
        slurm.expect("n1", "DOWN", timeout=0.2)


def test_a_command_that_fails_or_hangs_is_told_by_name(slurm: Slurm) -> None:
    with pytest.raises(Refusal, match=r"`scontrol show node nobody` on login exited with code 1: .*not found"):
        slurm.run("scontrol", "show", "node", "nobody")
    with pytest.raises(Refusal, match=r"`sleep 600` on n1 did not finish within 0.5 s"):
        slurm.run("sleep", "600", on="n1", timeout=0.5)
    assert "sleep 600" not in slurm.run("ps", "ax", on="n1")


def test_what_is_not_there_or_runs_already_is_refused(slurm: Slurm) -> None:
    with pytest.raises(Refusal, match="no machine n9, only controller, login"):
        slurm.kill("n9")
    with pytest.raises(Refusal, match="is already running"):
        slurm.start("n1")
    with pytest.raises(Refusal, match="n1 already exists"):
        slurm.add("n1")
