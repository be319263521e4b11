"""Jobs of people who are not root, on a slurmd with no more rights than a Pod gives it, in boxes of the shipped image."""

import secrets
from collections.abc import Iterator

import pytest
from tests.box import ADDRESS, SLURM_CONF, Box, File, Plan, box, network, wait_for
from tests.versions import BOTH

from sunk.local.artifacts import images
from sunk.operator.slurmcluster.slurmconf.conf import SLURM_USER

ALICE = 2001
USERS = {
    "passwd": f"alice:*:{ALICE}:{ALICE}:Alice:/home/alice:/bin/bash\n",
    "group": f"alice:x:{ALICE}:\nscience:x:3000:alice\n",
}
# What containerd gives to a container, and SYS_PTRACE and SYS_NICE, which the operator adds.
OF_A_POD = (
    "chown,dac_override,fowner,fsetid,kill,setgid,setuid,setpcap,net_bind_service,net_raw,sys_chroot,mknod,"
    "audit_write,setfcap,sys_ptrace,sys_nice"
)
CONFIGURATION = f"""{SLURM_CONF}TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=400
PropagateResourceLimitsExcept=MEMLOCK
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherParams=OverMemoryKill
JobAcctGatherFrequency=task=1
"""
PLUGSTACK = "optional /usr/lib/sunk/job_env.so\n"
SERVER = ("--conf-server", f"{ADDRESS}:6817")
SLURMD = ("/init", "slurmd", "--", "-Z", "-N", "node", *SERVER, "--conf", "CPUs=4 RealMemory=2000")
LIMITED = ("setpriv", f"--bounding-set=-all,+{OF_A_POD.replace(',', ',+')}")
HOG = 'import time; held = b"x" * (600 << 20); time.sleep(60)'


class Node:
    """A node and its controller, both of which know alice."""

    def __init__(self, controller: Box, node: Box) -> None:
        self.controller = controller
        self.node = node

    def srun(self, *words: str) -> str:
        return self.controller.run("srun", "--chdir=/tmp", *words, user=ALICE)

    def sbatch(self, script: str, *options: str) -> str:
        words = ("--parsable", "--chdir=/tmp", "--output=/tmp/job-%j", *options, f"--wrap={script}")
        return self.controller.run("sbatch", *words, user=ALICE)

    def ends(self, job: str, state: str = "COMPLETED") -> str:
        """What it has written, once it has ended like this."""

        def shown() -> str:
            return self.controller.run("scontrol", "show", "job", job)

        wait_for(
            lambda: not any(f"JobState={one}" in shown() for one in ("PENDING", "RUNNING", "COMPLETING")), what=job
        )
        assert f"JobState={state}" in shown(), shown()
        written = self.node.files / "tmp" / f"job-{job}"
        return written.read_text() if written.exists() else ""

    def slurmd(self) -> str:
        return self.node.run("s6-svstat", "-o", "pid", "/run/s6/slurmd")


@pytest.fixture(scope="module", params=BOTH)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    image, folder = images.root_file_system("slurm", slurm=request.param), tmp_path_factory.mktemp("boxes")
    files = {f"etc/sunk/users/{name}": File(text) for name, text in USERS.items()}
    files["etc/slurm/slurm.key"] = File(secrets.token_hex(32), mode=0o440, owner=SLURM_USER)
    settings = {"slurm": CONFIGURATION, "cgroup": "CgroupPlugin=disabled\n", "plugstack": PLUGSTACK}
    conf = {f"etc/slurm/{name}.conf": File(text) for name, text in settings.items()}
    variables = {"run/sunk/job-environment": File("FLAVOUR=a small one\0LINES=one\ntwo\0")}
    with network() as net:

        def plan(name: str, more: dict[str, File], user: int = 0) -> Plan:
            return Plan(image=image, folder=folder / name, network=net, name=name, user=user, files=files | more)

        with (
            box(plan("controller", conf, SLURM_USER), "/init", "slurmctld") as controller,
            box(plan("node", variables), *LIMITED, *SLURMD) as node,
        ):
            wait_for(lambda: "idle" in controller.attempt("sinfo", "--noheader", "--format=%T"), what="an idle node")
            yield Node(controller, node)


@pytest.mark.parametrize("export", ["NONE", "X=1"])
def test_a_job_without_the_environment_of_its_submitter_has_that_of_a_login(cluster: Node, export: str) -> None:
    before = cluster.slurmd()
    job = cluster.sbatch('echo "$HOME,$USER,$X,$FLAVOUR"', f"--export={export}")
    assert cluster.ends(job) == f"/home/alice,alice,{'1' if export != 'NONE' else ''},a small one\n"
    assert cluster.slurmd() == before


def test_variables_of_the_definition_reach_tasks(cluster: Node) -> None:
    assert cluster.srun("printenv", "FLAVOUR", "LINES") == "a small one\none\ntwo"


def test_tasks_are_bound_to_cores(cluster: Node) -> None:
    said = cluster.srun("-n1", "--cpu-bind=verbose,cores", "nproc")
    assert said == "1"


def test_a_job_over_its_memory_ends_and_its_neighbour_lives(cluster: Node) -> None:
    lives = cluster.sbatch("sleep 8", "--mem=100M")
    dies = cluster.sbatch(f"python3 -c '{HOG}'", "--mem=200M")
    assert "exceeded memory limit" in cluster.ends(dies, "FAILED").lower()
    assert cluster.ends(lives) == ""


def test_what_a_job_uses_is_measured(cluster: Node) -> None:
    job = cluster.sbatch("python3 -c 'import time; held = b\"x\" * (150 << 20); time.sleep(60)'")

    def used() -> float:
        words = ("sstat", "--allsteps", "--noheader", "--parsable2", "--format=MaxRSS", f"--jobs={job}.batch")
        return float(cluster.controller.attempt(*words).rstrip("K") or 0)

    wait_for(lambda: used() > 150_000, what="a figure")
    cluster.controller.run("scancel", job)
