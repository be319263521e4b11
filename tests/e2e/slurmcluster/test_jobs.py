"""One `helm install` is a Slurm cluster, and what people expect of Slurm holds on it."""

import re
from collections.abc import Iterator

import pytest
from msgspec import json
from tests.e2e.slurmcluster.release import USER, Release, on
from tests.e2e.slurmcluster.sides import BEGINS, LASTING, begins, tell_over
from tests.waiting import eventually

CONTROLLER = "app.kubernetes.io/name=slurmctld"
KINDS = ("cpu", "small", "gpu")
VALUES = {
    "compute": {
        "nodes": {
            "cpu": {"affinity": on("cpu")},
            "small": {
                "enabled": True,
                "definitions": ["cpu"],
                "affinity": on("small"),
                "features": ["small"],
                "resources": {"limits": {"cpu": "1", "memory": "512Mi"}},
                "env": [{"name": "FLAVOUR", "value": "a small one"}],
            },
            "faked-gpu": {"enabled": True, "affinity": on("gpu")},
        }
    }
}


@pytest.fixture(autouse=True)
def afterwards_nothing_is_queued(slurm: Release) -> Iterator[None]:
    yield
    slurm.cancel()
    eventually(lambda: len(slurm.idle()) == len(KINDS))


def test_a_job_runs_on_the_nodes_of_three_definitions(slurm: Release) -> None:
    said = slurm("srun", "-N3", "hostname").split()
    assert sorted(re.sub(r"-\d+-\d+$", "", one) for one in said) == ["slurm-cpu", "slurm-faked-gpu", "slurm-small"]
    assert slurm("sinfo", "--noheader", "-o", "%R %D").split("\n")[:-1] == ["all 3", "cpu 1", "faked-gpu 1", "small 1"]
    assert slurm("srun", "-p", "small", "sh", "-c", "echo $FLAVOUR").strip() == "a small one"

    row = re.compile(r"slurmcluster\S*/slurm +True +3 +3 ")
    eventually(lambda: row.search(slurm.kubectl("get", "slurmcluster,nodeset,nodeslice,pods")) is not None)
    told = slurm.kubectl("logs", "-l", CONTROLLER, "-c", "slurmctld", "--tail=-1")
    assert "Running as primary controller" in told
    version = slurm("scontrol", "--version").split()[1]
    assert slurm.object()["status"]["slurmVersion"] == version
    assert f"Slurm {version}" in slurm.status()
    eventually(lambda: "3 members are healthy, 0 not" in slurm.status())


@pytest.mark.full
def test_slurmctld_finds_every_host_that_a_command_may_wait_on(slurm: Release) -> None:
    # In its environment, which is not that of a command beside it.
    inside = (
        "sh",
        "-c",
        'export "$(tr "\\0" "\\n" < /proc/1/environ | grep ^LOCALDOMAIN=)"; getent hosts "$@" || :',
        "sh",
    )
    wanted = ["slurm-login-0", *slurm.idle()]

    def found() -> list[str]:
        told = slurm.kubectl("exec", "deployment/slurm-controller", "-c", "slurmctld", "--", *inside, *wanted)
        return [line.split()[1].partition(".")[0] for line in told.splitlines()]

    eventually(lambda: found() == wanted)  # DNS hears of a Pod a moment after it has its address
    slurm.ends(slurm.submit("srun true; srun true"))
    assert slurm("srun", "echo", "here").strip() == "here"
    said = slurm.kubectl("logs", "deployment/slurm-controller", "-c", "slurmctld", "--tail=-1")
    assert "Unable to resolve" not in said


@pytest.mark.full
def test_what_is_rendered_offline_is_what_the_operator_has_built(slurm: Release) -> None:
    rendered = {(one["kind"], one["metadata"]["name"]): one for one in slurm.rendered()}
    assert {kind for kind, _ in rendered} >= {"ConfigMap", "Deployment", "StatefulSet", "Service", "NodeSet"}
    for kind, name in rendered:
        slurm.kubectl("get", kind, name)
    text = slurm.kubectl("get", "configmap", "slurm-slurm-conf", "-o", r"jsonpath={.data.slurm\.conf}")
    assert rendered["ConfigMap", "slurm-slurm-conf"]["data"]["slurm.conf"] == text


@pytest.mark.full
def test_gpus_are_counted_and_handed_out(slurm: Release) -> None:
    shown = dict(line.split() for line in slurm("sinfo", "--noheader", "-p", "all", "-o", "%n %G").splitlines())
    assert [gpus.partition("(")[0] for name, gpus in sorted(shown.items()) if "gpu" in name] == ["gpu:h100:8"]
    assert [gpus for name, gpus in shown.items() if "gpu" not in name] == ["(null)", "(null)"]

    told = slurm("srun", "--gres=gpu:h100:3", "sh", "-c", "echo $SLURM_GPUS_ON_NODE $CUDA_VISIBLE_DEVICES").split()
    assert told == ["3", "0,1,2"]
    first = slurm.submit("sleep 3600", "--gres=gpu:6")
    slurm.runs(first)
    second = slurm.submit("sleep 3600", "--gres=gpu:3")
    eventually(lambda: slurm.job(second, "Reason") == "Resources")
    slurm("scancel", first)
    slurm.runs(second)


@pytest.mark.full
def test_arrays_dependencies_and_het_jobs(slurm: Release) -> None:
    array = slurm.submit("true", "--array=1-6%2")
    after = slurm.submit("true", f"--dependency=afterok:{array}")
    slurm.ends(array)
    slurm.ends(after)

    fails = slurm.submit("false")
    never = slurm.submit("true", f"--dependency=afterok:{fails}", "--kill-on-invalid-dep=yes")
    slurm.ends(fails, "FAILED")
    slurm.ends(never, "CANCELLED")

    het = slurm("srun", "-p", "cpu", "-n1", "hostname", ":", "-p", "small", "-n1", "hostname").split()
    assert sorted(one.rsplit("-", 2)[0] for one in het) == ["slurm-cpu", "slurm-small"]
    batch = slurm.submit("srun --het-group=0,1 true", "-p", "cpu", ":", "-p", "small")
    slurm.ends(batch)


@pytest.mark.full
def test_a_job_that_does_not_fit_waits_and_one_that_never_will_is_refused(slurm: Release) -> None:
    small = slurm.submit("sleep 3600", "-p", "small")
    slurm.runs(small)
    whole = slurm.submit("true", "-N3", "--exclusive")
    eventually(lambda: slurm.job(whole, "Reason") == "Resources")
    slurm("scancel", small)
    slurm.ends(whole)

    refused = slurm("sh", "-c", "sbatch -N4 --wrap true 2>&1; sbatch -p small -c2 --wrap true 2>&1; true", user=USER)
    assert refused.count("Requested node configuration is not available") == 2


@pytest.mark.full
def test_small_jobs_share_a_node_and_exclusive_ones_do_not(slurm: Release) -> None:
    (one_cpu,) = (name for name in slurm.idle() if "small" in name)
    small = [slurm.submit("sleep 3600", "-n1", f"--exclude={one_cpu}") for _ in range(2)]
    for one in small:
        slurm.runs(one)
    assert len({slurm.job(one, "NodeList") for one in small}) == 1
    slurm.cancel()

    alone = [slurm.submit("sleep 3600", "-n1", "--exclusive") for _ in range(2)]
    for one in alone:
        slurm.runs(one)
    assert len({slurm.job(one, "NodeList") for one in alone}) == 2


@pytest.mark.full
def test_other_work_takes_most_of_a_node_beside_an_idle_slurmd(slurm: Release, nodes: tuple[str, ...]) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "beside"},
        "spec": {
            # Through the scheduler, which counts.
            "nodeSelector": {"kubernetes.io/hostname": nodes[0]},
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "web",
                    "image": "localhost/slurm:24.11",
                    "imagePullPolicy": "Never",
                    "command": ["sleep", "600"],
                    "resources": {"requests": {"cpu": "1600m"}},
                }
            ],
        },
    }
    slurm.kubectl("apply", "-f", "-", stdin=json.encode(body).decode())
    try:
        slurm.kubectl("wait", "--for=condition=Ready", "pod/beside", "--timeout=110s")
        assert slurm("srun", "-p", "cpu", "-n2", "echo", "both").split() == ["both", "both"]
    finally:
        # Where the job needed its Node it is gone.
        slurm.kubectl("delete", "pod", "beside", "--ignore-not-found")


@pytest.mark.full
def test_jobs_outlive_a_new_slurmctld(slurm: Release) -> None:
    running = slurm.submit(f"{BEGINS}; {LASTING}", "-N3")
    slurm.runs(running)
    begins(slurm, slurm.job(running, "BatchHost"), running)
    waiting = slurm.submit("true", f"--dependency=afterok:{running}")

    def renewed(*order: str) -> None:
        before = slurm.pods("controller")
        slurm.kubectl(*order)
        # Its Deployment may count one that was deleted for a moment longer.
        eventually(lambda: bool(slurm.pods("controller")) and not {*before} & {*slurm.pods("controller")})
        slurm.kubectl("wait", "--for=condition=Ready", "pod", "-l", CONTROLLER, "--timeout=110s")

    renewed("delete", "pod", "-l", CONTROLLER)
    assert slurm.job(running) == "RUNNING"
    renewed("rollout", "restart", "deployment", "slurm-controller")
    assert slurm.job(running) == "RUNNING"
    tell_over(slurm, running)
    slurm.ends(running)
    slurm.ends(waiting)
    assert slurm.job(running, "Restarts") == "0"
    # What a person said of the Deployment is not taken back.
    path = r"jsonpath={.spec.template.metadata.annotations.kubectl\.kubernetes\.io/restartedAt}"
    assert slurm.kubectl("get", "deployment", "slurm-controller", "-o", path)
