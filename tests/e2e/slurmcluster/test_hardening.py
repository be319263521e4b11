"""What Pods may not do to files of people, to keys and to their Node, and that jobs run all the same."""

import time
from collections.abc import Iterator
from functools import partial

import pytest
from msgspec import json
from tests.conftest import Kubectl
from tests.e2e.slurmcluster.release import Release, on
from tests.e2e.slurmcluster.sides import LASTING, fate, sunk, tell_over
from tests.helm import Helm
from tests.waiting import eventually

KINDS = ("cpu", "nobody", "nobody")
VALUES = {
    "compute": {
        "mounts": [{"name": "/home", "pvc": "homes"}],
        "nodes": {"cpu": {"affinity": on("cpu"), "resources": {"limits": {"cpu": "1", "memory": "512Mi"}}}},
    },
    "accounting": {"enforce": ""},
    "login": {"sharedMemory": "96Mi"},
}
ALICE = "alice"
FILES = """
mkdir -p /home/alice/.ssh /home/lab && echo key > /home/alice/.ssh/id && echo all > /home/lab/notes
chmod 600 /home/alice/.ssh/id && chmod 700 /home/alice /home/alice/.ssh && chmod 640 /home/lab/notes
chown -R 2001:2001 /home/alice && chown -R 1002:2000 /home/lab && chmod 2770 /home/lab
"""
LISTED = "find /home -mindepth 1 -printf '%P %U:%G %m\\n' | sort"
AS_THEY_WERE = ["alice 2001:2001 700", "alice/.ssh 2001:2001 700", "alice/.ssh/id 2001:2001 600"]
AS_THEY_WERE += ["lab 1002:2000 2770", "lab/notes 1002:2000 640"]


def claim(kubectl: Kubectl, name: str) -> None:
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
    kubectl("apply", "-f", "-", stdin=json.encode(body).decode())


def done(kubectl: Kubectl, name: str, script: str, **security: int) -> str:
    """Run a script in a Pod with the claim of that name, and give what it said."""
    pod = f"{name}-{time.monotonic_ns()}"
    container = {
        "name": "it",
        "image": "localhost/slurm:24.11",
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
        "volumeMounts": [{"name": "homes", "mountPath": "/home"}],
    }
    spec = {
        "containers": [container],
        "restartPolicy": "Never",
        "securityContext": security,
        "volumes": [{"name": "homes", "persistentVolumeClaim": {"claimName": name}}],
    }
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod}, "spec": spec}
    kubectl("apply", "-f", "-", stdin=json.encode(body).decode())
    kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", f"pod/{pod}", "--timeout=110s")
    return kubectl("logs", pod)


@pytest.fixture(scope="module")
def operator(operator: Helm) -> Helm:
    """With a claim that has homes of people, there before the cluster is."""
    claim(operator.kubectl, "homes")
    done(operator.kubectl, "homes", FILES)
    return operator


@pytest.fixture(autouse=True)
def afterwards_nothing_is_queued(slurm: Release) -> Iterator[None]:
    yield
    slurm.cancel()


def inside(slurm: Release, what: str, container: str, *command: str) -> str:
    return slurm.kubectl("exec", what, "-c", container, "--", *command)


def node_pod(slurm: Release) -> str:
    eventually(lambda: bool(slurm.idle()))  # the job before may still be on its way out
    (name,) = slurm.idle()
    return f"pod/{name}"


def test_files_on_claims_of_people_keep_their_owners_and_modes(slurm: Release) -> None:
    assert slurm("sh", "-c", LISTED).splitlines() == AS_THEY_WERE
    node = inside(slurm, node_pod(slurm), "slurmd", "sh", "-c", LISTED)
    assert node.splitlines() == AS_THEY_WERE
    assert slurm("cat", "/home/alice/.ssh/id", user=ALICE) == "key\n"

    # Or this would show nothing: a Pod with an fsGroup does change them, here as elsewhere.
    claim(slurm.kubectl, "others")
    done(slurm.kubectl, "others", FILES)
    changed = done(slurm.kubectl, "others", LISTED, fsGroup=64030).splitlines()
    assert "alice/.ssh/id 2001:64030 660" in changed


def test_each_key_is_readable_for_its_daemon_alone(slurm: Release) -> None:
    shown = ("stat", "-L", "-c", "%U %a")
    assert slurm(*shown, "/etc/slurm/slurm.key") == "slurm 400\n"
    assert inside(slurm, node_pod(slurm), "slurmd", *shown, "/etc/slurm/slurm.key") == "root 400\n"
    for what, container in (("deployment/slurm-controller", "slurmctld"), ("deployment/slurm-syncer", "sackd")):
        place = "/etc/slurm" if container == "sackd" else "/etc/sunk/keys"
        assert inside(slurm, what, container, *shown, f"{place}/slurm.key") == "slurm 400\n"
    refused = ("sh", "-c", "cat /etc/slurm/slurm.key 2>&1 || true")
    assert "Permission denied" in slurm(*refused, user=ALICE)
    assert "Permission denied" in slurm("srun", *refused, user=ALICE)


def test_jobs_of_people_run_under_the_usual_filter_of_system_calls(slurm: Release) -> None:
    filtered = ("sh", "-c", "grep Seccomp: /proc/self/status")
    assert slurm(*filtered).split() == ["Seccomp:", "2"]
    assert slurm("srun", *filtered, user=ALICE).split() == ["Seccomp:", "2"]
    assert slurm("srun", "id", "-u", user=ALICE) == "2001\n"
    slurm.ends(slurm.submit("srun true", user=ALICE))
    terminal = slurm("script", "-qec", "srun --pty tty", "/dev/null", user=ALICE)
    assert "/dev/pts/" in terminal


def test_shared_memory_has_its_size(slurm: Release) -> None:
    size = ("df", "--output=size", "-BM", "/dev/shm")  # noqa: S108 - what is asked for
    assert slurm(*size).split()[-1] == "96M"
    assert slurm("srun", *size, user=ALICE).split()[-1] == "256M"


@pytest.mark.full
@pytest.mark.timeout(1200)  # three times the minute and more that the kubelet takes to bring a changed Secret
def test_the_key_of_slurm_is_exchanged_under_a_running_job(slurm: Release) -> None:
    job = slurm.submit(LASTING, user=ALICE)
    slurm.runs(job)
    for step in (("add", "--id", "second"), ("use", "second"), ("drop", "first")):
        told = sunk(slurm, "keys", *step)
        assert told.returncode == 0, told.stderr
        everywhere(slurm)
        inside(slurm, "deployment/slurm-controller", "slurmctld", "scontrol", "reconfigure")
        restart(slurm, "deployment/slurm-accounting")  # slurmdbd reads its key once
        answers(slurm, "--overlap", f"--jobid={job}")
    assert sunk(slurm, "keys", "list").stdout == "second  (in use)\n"
    assert fate(slurm, job) == ("RUNNING", "0")
    tell_over(slurm, job)
    slurm.ends(job)
    restart(slurm, "deployment/slurm-controller")
    slurm.ready()
    answers(slurm)


def answers(slurm: Release, *options: str) -> None:
    """Wait until a step runs. While daemons read their keys, one may be refused."""
    step = f"srun {' '.join(options)} echo 1 || true"
    eventually(lambda: "1" in slurm("sh", "-c", step, user=ALICE))


def restart(slurm: Release, what: str) -> None:
    slurm.kubectl("rollout", "restart", what)
    slurm.kubectl("rollout", "status", what, "--timeout=110s")


def everywhere(slurm: Release) -> None:
    """Wait until the files in all Pods are those of the Secret."""
    wanted = slurm.kubectl("get", "secret", "slurm-auth-slurm", "-o", r"jsonpath={.data.slurm\.jwks}")
    read = ("base64", "-w0")
    nodes = slurm("sinfo", "--noheader", "-N", "-o", "%N").split()
    places = [(f"pod/{name}", "slurmd", "/etc/slurm") for name in set(nodes)]
    places += [("deployment/slurm-controller", "slurmctld", "/etc/sunk/keys")]
    places += [("statefulset/slurm-login", "sshd", "/etc/slurm"), ("deployment/slurm-syncer", "sackd", "/etc/slurm")]

    def same(what: str, container: str, folder: str) -> bool:
        file = f"{folder}/slurm.jwks"
        return inside(slurm, what, container, "sh", "-c", f"[ ! -e {file} ] || {' '.join(read)} {file}") == wanted

    for place in places:
        eventually(partial(same, *place), seconds=240)
