"""What a user who is not root does with a cluster, all day long."""

import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.slurmcluster.release import USER, Release, on
from tests.waiting import eventually

pytestmark = pytest.mark.full


def _key() -> tuple[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file], check=True)
        return file.read_text(), file.with_suffix(".pub").read_text()


PRIVATE, PUBLIC = _key()
KINDS = ("cpu", "cpu", "cpu")
VALUES = {
    "slurmConfig": {
        "selectTypeParameters": "CR_Core_Memory",
        "defMemPerCPU": 256,
        "jobAcctGatherFrequency": "task=1",
        "slurmCtld": {"taskPlugin": "task/affinity"},
    },
    "users": {"authorizedKeys": {USER: PUBLIC}},
    "compute": {"nodes": {"cpu": {"affinity": on("cpu"), "env": [{"name": "FLAVOUR", "value": "one\ntwo"}]}}},
}
KEY = "/root/key"
HOLD = "python3 -c 'import time; held = b\"x\" * ({} << 20); time.sleep({})'"
MEET = """
import os, socket, subprocess, time
hosts = subprocess.check_output(["scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]], text=True).split()
if os.environ["SLURM_PROCID"] == "0":
    with socket.create_server(("", 29500)) as server:
        print(server.accept()[0].recv(99).decode())
else:
    deadline = time.monotonic() + 100
    while True:
        try:
            with socket.create_connection((hosts[0], 29500), 5) as peer:
                peer.sendall(b"met at " + hosts[0].encode())
            break
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.2)
"""


@pytest.fixture(autouse=True)
def afterwards_nothing_is_queued(slurm: Release) -> Iterator[None]:
    yield
    slurm.cancel()
    eventually(lambda: len(slurm.idle()) == len(KINDS))


def node(slurm: Release, name: str, *command: str) -> str:
    return slurm.kubectl("exec", name, "-c", "slurmd", "--", *command)


def used(slurm: Release, job: str, field: str) -> str:
    """What accounting has about the batch step of a job."""
    wanted = ("--noheader", "--parsable2", f"--format={field}", f"--jobs={job}.batch")
    return slurm("sacct", *wanted).strip()


def test_nodes_meet_by_the_names_that_slurm_has_for_them(slurm: Release) -> None:
    names = slurm.idle()
    met = slurm("srun", "-N2", "--ntasks-per-node=1", "python3", "-c", MEET)
    assert met.removeprefix("met at ").strip() in names
    for name in names:
        assert slurm("getent", "hosts", name).split()[1].startswith(f"{name}.slurm-compute.")


def test_a_node_that_was_made_again_is_found_by_its_name(
    slurm: Release, record_property: Callable[[str, object], None]
) -> None:
    asks, name = slurm.idle()[:2]
    before = slurm.kubectl("get", "pod", name, "-o", "jsonpath={.metadata.uid}")
    slurm.kubectl("delete", "pod", name, "--wait=false")

    def address() -> str:
        # Asked for all the time, so that its absence is remembered by whoever remembers such things.
        node(slurm, asks, "sh", "-c", f"getent hosts {name} || true")
        now = slurm.kubectl("get", "pod", name, "--ignore-not-found", "-o", "jsonpath={.metadata.uid} {.status.podIP}")
        uid, _, found = now.partition(" ")
        return found if uid not in {"", before} else ""

    eventually(lambda: address() != "", seconds=120)
    there, began = address(), time.monotonic()
    eventually(lambda: there in node(slurm, asks, "sh", "-c", f"getent hosts {name} || true"))
    record_property("seconds until found", f"{time.monotonic() - began:.1f}")


@pytest.mark.parametrize("export", ["NONE", "X=1"])
def test_a_job_can_leave_the_environment_of_its_submitter_behind(slurm: Release, export: str) -> None:
    first = slurm.idle()[0]
    before = node(slurm, first, "s6-svstat", "-o", "pid", "/run/s6/slurmd")
    job = slurm.submit('test "$HOME" = /home/alice && test "$USER" = alice', f"--export={export}", "-w", first)
    slurm.ends(job)
    assert node(slurm, first, "s6-svstat", "-o", "pid", "/run/s6/slurmd") == before


def test_variables_of_the_definition_reach_jobs(slurm: Release) -> None:
    assert slurm("srun", "printenv", "FLAVOUR") == "one\ntwo\n"


def test_what_a_job_uses_is_known(slurm: Release) -> None:
    job = slurm.submit(HOLD.format(150, 12))
    slurm.ends(job)
    eventually(lambda: used(slurm, job, "MaxRSS") != "")
    assert 150 << 10 < float(used(slurm, job, "MaxRSS").rstrip("K")) < 250 << 10
    assert re.fullmatch(r"00:00:0\d", used(slurm, job, "AveCPU"))


def test_a_job_over_its_memory_ends_and_its_neighbour_lives(slurm: Release) -> None:
    first = slurm.idle()[0]
    lives = slurm.submit("sleep 12", "--mem=100M", "-w", first)
    said = f"/home/{USER}/said-{time.time_ns()}"
    dies = slurm.submit(HOLD.format(400, 60), "--mem=200M", "-w", first, f"--error={said}")
    slurm.ends(dies, "FAILED")
    assert "exceeded memory limit" in node(slurm, first, "cat", said).lower()
    slurm.ends(lives)


def test_memory_is_counted(slurm: Release) -> None:
    first = slurm.idle()[0]
    slurm.runs(slurm.submit("sleep 3600", "--mem=600M", "-n1", "-w", first))
    waits = slurm.submit("true", "--mem=600M", "-n1", "-w", first)
    eventually(lambda: slurm.job(waits, "Reason") == "Resources")


def test_tasks_are_bound_to_their_cores(slurm: Release) -> None:
    said = slurm("srun", "-n2", "-N1", "--cpu-bind=cores", "sh", "-c", "taskset -cp $$ | sed 's/.*: //'").split()
    assert len(set(said)) == 2


def test_reservations_broadcasts_and_het_allocations(slurm: Release) -> None:
    made = ("reservation", "ReservationName=hers", f"Users={USER}", "StartTime=now", "Duration=10", "Nodes=ALL")
    slurm("scontrol", "create", *made)
    try:
        assert slurm("srun", "--reservation=hers", "id", "-un").strip() == USER
    finally:
        slurm("scontrol", "delete", "ReservationName=hers")
    slurm.ends(slurm.submit("sbcast /etc/hosts /tmp/b-$SLURM_JOB_ID && srun cmp /etc/hostname /etc/hostname", "-N2"))
    het = slurm("salloc", "-n1", ":", "-n1", "srun", "--het-group=0,1", "id", "-un").split()
    assert het == [USER, USER]


def test_she_logs_in_with_her_key(slurm: Release) -> None:
    slurm("sh", "-c", f"umask 077; cat > {KEY} <<'EOF'\n{PRIVATE}EOF")
    quiet = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "BatchMode=yes")
    words = (
        "ssh",
        "-q",
        "-i",
        KEY,
        *quiet,
        f"{USER}@127.0.0.1",
        "bash -lc 'pwd; srun hostname; printenv SLURM_MPI_TYPE'",
    )
    home, host, mpi = slurm(*words).split()
    assert home == f"/home/{USER}"
    assert host in slurm("sinfo", "--noheader", "-N", "-o", "%N")
    assert mpi == "pmix"
    slurm("rm", KEY)


def test_probes_leave_no_trace_in_the_log_of_slurmd(slurm: Release) -> None:
    """They come every two seconds. A slurmd that has just started may have looked for slurmctld in vain before that."""
    pod = slurm.idle()[0]
    eventually(lambda: "error" not in slurm.kubectl("logs", pod, "-c", "slurmd", "--since=10s"))
