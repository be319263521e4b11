"""A Slurm cluster of boxes out of the shipped image: slurmctld in one, slurmd or a login place in the other."""

import secrets
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import pytest
from tests.box import ADDRESS, SLURM_CONF, Box, File, Plan, box, network, wait_for
from tests.versions import BOTH

from sunk.local.artifacts import images

SLURM_USER = 64030
SOME_USER = 1001
CONFIGURATION = f"""{SLURM_CONF}TaskPlugin=task/none
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=10
"""
SERVER = ("--conf-server", f"{ADDRESS}:6817")
SLURMD = ("/init", "slurmd", "--", "-Z", "-N", "node", *SERVER, "--conf", "CPUs=4 RealMemory=1000 Feature=h100")

Start = Callable[..., AbstractContextManager[Box]]


class Pair(msgspec.Struct, frozen=True):
    """The smallest Slurm cluster."""

    controller: Box
    node: Box

    def srun(self, *command: str) -> str:
        return self.controller.run("srun", "--chdir=/", *command)

    def sbatch(self, script: str) -> str:
        words = ("--parsable", "--chdir=/", "--output=/tmp/job-%j", f"--wrap={script}")
        return self.controller.run("sbatch", *words)

    def written(self, job: str) -> str:
        file = self.node.files / "tmp" / f"job-{job}"
        return file.read_text() if file.exists() else ""

    def slurmd(self) -> str:
        """Its process id, inside."""
        return self.node.run("s6-svstat", "-o", "pid", "/run/s6/slurmd")


@pytest.fixture(scope="module", params=BOTH)
def image(request: pytest.FixtureRequest) -> Path:
    return images.root_file_system("slurm", slurm=request.param)


@pytest.fixture
def start(image: Path, tmp_path: Path) -> Iterator[Start]:
    """Start a box with the cluster's key in it, readable as a Secret of a Pod would be."""
    key = File(secrets.token_hex(32), mode=0o440, owner=SLURM_USER)
    with network() as net:

        def begin(
            *command: str, name: str, user: int = 0, laid: Mapping[str, File] | None = None, **files: File
        ) -> AbstractContextManager[Box]:
            settings = {f"etc/slurm/{file}.conf": text for file, text in files.items()}
            every = {"etc/slurm/slurm.key": key, **settings, **(laid or {})}
            plan = Plan(image=image, folder=tmp_path / name, network=net, name=name, user=user, files=every)
            return box(plan, *command)

        yield begin


@pytest.fixture
def controller(start: Start) -> Iterator[Box]:
    settings = {"slurm": File(CONFIGURATION), "cgroup": File("CgroupPlugin=disabled\n")}
    with start("/init", "slurmctld", name="controller", user=SLURM_USER, **settings) as made:
        wait_for(lambda: "Running as primary controller" in made.said(), what="slurmctld")
        yield made


@pytest.fixture
def pair(controller: Box, start: Start) -> Iterator[Pair]:
    with start(*SLURMD, name="node") as node:
        sinfo = ("sinfo", "--noheader", "--format=%T")
        wait_for(lambda: controller.attempt(*sinfo) == "idle", what="an idle node")
        yield Pair(controller=controller, node=node)


def test_a_node_joins_and_runs_a_job(pair: Pair) -> None:
    assert pair.srun("hostname") == "node"


def test_steps_outlive_their_slurmd_which_is_started_again(pair: Pair) -> None:
    job = pair.sbatch("echo began; sleep 5; echo survived")
    wait_for(lambda: "began" in pair.written(job), what="the job")
    before = pair.slurmd()
    pair.node.run("s6-svc", "-k", "/run/s6/slurmd")
    wait_for(lambda: pair.slurmd() not in {before, "-1"}, what="another slurmd")
    wait_for(lambda: "survived" in pair.written(job), what="the end of the job")
    wait_for(lambda: "JobState=COMPLETED" in pair.controller.run("scontrol", "show", "job", job), what="its success")
    assert pair.srun("hostname") == "node"


def test_daemons_keep_their_process_through_a_reconfigure(pair: Pair) -> None:
    before = pair.slurmd()
    pair.controller.run("scontrol", "reconfigure")
    wait_for(lambda: pair.controller.attempt("srun", "--chdir=/", "hostname") == "node", what="a job")
    assert pair.slurmd() == before


def test_no_zombies_stay_behind(pair: Pair) -> None:
    for _ in range(3):
        pair.srun("true")
    wait_for(lambda: "Z" not in pair.node.run("ps", "-e", "-o", "stat="), what="the end of all zombies")


def test_a_node_that_is_ended_asks_its_jobs_to_end_and_leaves_with_0(pair: Pair) -> None:
    job = pair.sbatch("trap 'echo told; exit 0' TERM; echo began; while :; do sleep 0.1; done")
    wait_for(lambda: "began" in pair.written(job), what="the job")
    assert pair.node.stop() == 0
    assert "told" in pair.written(job)


def test_a_controller_that_is_ended_saves_its_state_and_leaves_with_0(controller: Box) -> None:
    wait_for(lambda: bool(controller.attempt("sinfo")), what="an answer of slurmctld")
    assert controller.stop() == 0
    assert (controller.files / "var/spool/slurmctld/job_state").is_file()


@pytest.mark.usefixtures("controller")
def test_anybody_may_ask_slurm_in_a_login_place(start: Start) -> None:
    with start("/init", "sackd", "--", *SERVER, name="login") as login:
        # sackd has the configuration a moment before it serves.
        sinfo = ("sinfo", "--noheader", "--format=%P")
        wait_for(lambda: login.attempt(*sinfo, user=SOME_USER) == "all*", what="an answer to anybody")
        assert login.run("ps", "-o", "user:32=", "-C", "sackd") == "slurm"


def test_sshd_makes_host_keys_of_its_own(start: Start, image: Path) -> None:
    assert not list((image / "etc/ssh").glob("ssh_host_*"))
    with start("/init", "sshd", name="login") as login:
        wait_for(lambda: "Server listening on" in login.said(), what="sshd")
        assert list((login.files / "etc/ssh").glob("ssh_host_*_key"))


def test_sshd_beside_slurmd_lets_in_users_with_a_job_alone(controller: Box, start: Start, tmp_path: Path) -> None:
    """And stays when slurmd dies; what it lets in does not have slurmd's place before the kernel's memory killer."""
    subprocess.run(["ssh-keygen", "-qt", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    people = {
        "etc/sunk/users/passwd": File("alice:*:5001:5000::/home/alice:/bin/bash\n"),
        "etc/sunk/users/group": File("staff:*:5000:\n"),
        "etc/sunk/users/authorized_keys.alice": File((tmp_path / "key.pub").read_text()),
        "etc/key": File((tmp_path / "key").read_text(), mode=0o600),
    }
    command = (SLURMD[0], SLURMD[1], "sshd", *SLURMD[2:])
    with start(*command, name="node", laid=people) as node:
        wait_for(lambda: controller.run("sinfo", "--noheader", "--format=%T") == "idle", what="an idle node")
        wait_for(lambda: "Server listening on" in node.said(), what="sshd")
        options = ("-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null", "-oBatchMode=yes")
        ssh = f"ssh -i /etc/key {' '.join(options)} alice@127.0.0.1 cat /proc/self/oom_score_adj 2>&1; echo $?"
        said = node.run("bash", "-c", ssh)
        assert said.endswith("255"), said
        assert "pamservicename sunk-node" in node.run("sshd", "-T").lower()
        assert "nodename=node " in node.run("cat", "/etc/pam.d/sunk-node")
        before = node.run("s6-svstat", "-o", "pid", "/run/s6/sshd")
        node.run("s6-svc", "-k", "/run/s6/slurmd")
        wait_for(lambda: node.said().count("slurmd version") >= 2, what="another slurmd")
        assert node.run("s6-svstat", "-o", "pid", "/run/s6/sshd") == before
        assert node.stop() == 0
