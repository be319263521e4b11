"""What is built from a SlurmCluster, run by the real daemons of the shipped images."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.box import Box, network, wait_for
from tests.integration.slurmcluster.pods import World, contents
from tests.versions import BOTH
from tests.waiting import eventually

from sunk.local.artifacts import images
from sunk.model.cluster.kind import SlurmClusterSpec
from sunk.model.layers.catalog import gather
from sunk.operator.slurmcluster.resolve import ResolvedCluster, resolve

SLURM_USER = 64030
DATABASE_USER = 64032
OFF = {"accounting": {"enabled": False}}
# What a slurmctld without any state says about that, and one on a busy machine about its clock.
EXPECTED = ("state file", "state save file", "not open", "No such file", "lost", "last_config_lite", "High latency")
MANY = {
    f"kind-{index}": {
        "enabled": True,
        "features": [f"f{index}", "shared"],
        "gresGpu": f"h{index % 7}:8" if index % 2 else None,
        "skuCpu": 8,
        "resources": {"limits": {"memory": "64Gi"}},
        "partitionConfig": {"OverSubscribe": "NO", "PriorityTier": index},
    }
    for index in range(60)
}
CASES: dict[str, dict[str, Any]] = {
    "without anything": OFF,
    "many definitions": OFF | {"compute": {"nodes": MANY}},
    "a REST service": OFF | {"rest": {"enabled": True}},
    "memory counted, cgroups": OFF
    | {
        "slurmConfig": {
            "selectTypeParameters": "CR_Core_Memory",
            "slurmCtld": {"prockTrackType": "proctrack/cgroup", "taskPlugin": "task/affinity,task/cgroup"},
            "cgroupConfig": {"ConstrainCores": "yes"},
        }
    },
    "words of one's own": OFF
    | {
        "slurmConfig": {
            "extraConfig": "# ours\nSchedulerParameters=bf_continue,\\\nbf_window=60\nMinJobAge=400\nMaxArraySize=2000 # more\n"
            "slurmctldparameters=idle_on_node_suspend\n"
        },
        "compute": {
            "partitions": "NodeSet=old Feature=old\nPartitionName=all Nodes=ALL \\\n Default=YES # all of them\n"
            "PartitionName=old Nodes=old\n"
        },
    },
}
CHART = Path(__file__).parents[3] / "charts" / "slurm"
Make = Callable[..., World]


def local() -> dict[str, Any]:
    """The values for small machines, with the layers that the chart adds."""
    read = {file.name: yaml.safe_load(file.read_text()) for file in CHART.glob("compute-defs/*.yaml")}
    values: dict[str, Any] = yaml.safe_load((CHART / "values-local.yaml").read_text())
    nodes = values["compute"]["nodes"]
    nodes["faked-gpu"]["enabled"] = True
    return values | OFF | {"compute": values["compute"] | {"layers": gather(read)}}


CASES["values for small machines"] = local()


def cluster(values: dict[str, Any]) -> ResolvedCluster:
    return resolve(
        msgspec.json.decode(msgspec.json.encode(values), type=SlurmClusterSpec), name="slurm", namespace="default"
    )


@pytest.fixture(scope="module", params=BOTH)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def world(version: str, tmp_path: Path) -> Iterator[Make]:
    names = ("slurmctld", "slurmd", "slurmdbd", "slurmrestd", "sshd")
    files = {name: images.root_file_system("slurm", slurm=version) for name in names}
    with network() as net:

        def make(values: dict[str, Any], **more: Path) -> World:
            made = cluster(values)
            return World(made, images={**files, **more}, network=net, folder=tmp_path, contents=contents(made))

        yield make


def slurm(box: Box, *command: str) -> str:
    return box.run(*command, user=SLURM_USER)


def complaints(said: str) -> list[str]:
    lines = [line for line in said.splitlines() if "error" in line or "warning" in line]
    return [line for line in lines if not any(words in line for words in EXPECTED)]


def succeeds(box: Box, *command: str, user: int) -> bool:
    try:
        box.run(*command, user=user)
    except (AssertionError, subprocess.TimeoutExpired):  # a daemon on its way down takes questions and answers none
        return False
    return True


def config(box: Box) -> dict[str, str]:
    pairs = (line.partition("=") for line in slurm(box, "scontrol", "show", "config").splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def ready(box: Box, *, controller: Box) -> None:
    """Wait for a node, and bring it into service as the syncer would: its record is born drained."""
    words = ("sinfo", "--noheader", "--Node", "--format=%N %T %E")
    wait_for(lambda: "new node" in slurm(controller, *words), what=f"a new node: {box.said()}")
    name = next(line.split()[0] for line in slurm(controller, *words).splitlines() if "new node" in line)
    slurm(controller, "scontrol", "update", f"nodename={name}", "state=undrain")
    wait_for(lambda: f"{name} idle" in slurm(controller, *words), what=f"an idle node: {box.said()}")


def primary(box: Box) -> None:
    wait_for(lambda: "Running as primary controller" in box.said() or "fatal" in box.said(), what="slurmctld")
    assert "fatal" not in box.said(), box.said()


@pytest.mark.parametrize("values", CASES.values(), ids=CASES.keys())
def test_slurmctld_takes_the_configuration_without_complaint(world: Make, values: dict[str, Any]) -> None:
    it = world(values)
    with it.run("slurm-controller") as controller:
        primary(controller)
        assert complaints(controller.said()) == []
        assert config(controller)["ClusterName"] == "slurm"
        found = slurm(controller, "scontrol", "show", "partitions", "-o").splitlines()
        wanted = {f"PartitionName={one.name}" for one in it.cluster.definitions} | {"PartitionName=all"}
        assert wanted <= {line.split()[0] for line in found}
        wait_for(lambda: succeeds(controller, *it.probe("slurm-controller"), user=SLURM_USER), what="an answer")
        controller.run("s6-svc", "-d", "/run/s6/slurmctld")
        wait_for(lambda: not succeeds(controller, *it.probe("slurm-controller"), user=SLURM_USER), what="no answer")


def test_words_of_ones_own_join_ours_and_do_not_take_them_away(world: Make) -> None:
    with world(CASES["words of one's own"]).run("slurm-controller") as controller:
        primary(controller)
        found = config(controller)
        assert set(found["SlurmctldParameters"].split(",")) >= {"enable_configless", "idle_on_node_suspend"}
        assert set(found["SchedulerParameters"].split(",")) >= {"batch_sched_delay=0", "bf_continue", "bf_window=60"}
        assert (found["MinJobAge"], found["MaxArraySize"]) == ("400 sec", "2000")


GPUS = "mkdir -p /dev; touch /dev/nvidia0 /dev/nvidia1"
NODES = OFF | {
    "slurmConfig": {"defMemPerCPU": 100, "slurmd": {"prologConfigmap": "before"}},
    "compute": {
        "reservedMemory": "100Mi",
        "s6": {"faked-gpus": {"type": "oneshot", "script": GPUS}},
        "nodes": {
            "gpu": {
                "enabled": True,
                "features": ["h100"],
                "gresGpu": "h100:2",
                "env": [{"name": "NCCL_DEBUG", "value": "two words"}, {"name": "CUDA", "value": "12#8"}],
                "resources": {"limits": {"cpu": "2", "memory": "600Mi"}},
            },
            "plain": {"enabled": True},
        },
    },
}
NODES_PLAIN = {"plain": {"enabled": True}}
BEFORE = {
    "20-second.sh": "#!/bin/sh\necho second >> /var/prolog\n",
    "10-first.sh": "#!/bin/sh\necho first >> /var/prolog\n",
}


@pytest.fixture
def nodes(world: Make) -> World:
    made = world(NODES)
    return msgspec.structs.replace(made, contents={**made.contents, "before": BEFORE})


def test_a_node_brings_its_size_features_gpus_and_environment(nodes: World) -> None:
    with (
        nodes.run("slurm-controller") as controller,
        nodes.run("slurm-gpu", as_pod="slurm-gpu-012-002", SUNK_CPUS="2", SUNK_MEMORY="600") as node,
    ):
        primary(controller)
        ready(node, controller=controller)
        shown = slurm(controller, "scontrol", "show", "node", "slurm-gpu-012-002")
        assert "CPUTot=2" in shown
        assert "RealMemory=500" in shown
        assert "Gres=gpu:h100:2" in shown
        assert "ActiveFeatures=slurm-gpu,h100" in shown
        assert "Partitions=all,gpu" in shown

        batch = ("srun", "--chdir=/", "-p", "gpu", "--gres=gpu:h100:2", "-n2", "printenv", "NCCL_DEBUG", "CUDA")
        assert controller.run(*batch).splitlines() == ["two words", "12#8"] * 2
        assert node.run("cat", "/var/prolog").splitlines() == ["first", "second"]


@pytest.mark.parametrize("drained", [False, True])
def test_a_node_that_leaves_is_down_at_once_and_the_reason_of_a_drain_stays(nodes: World, *, drained: bool) -> None:
    name = "slurm-plain-012-003"
    with (
        nodes.run("slurm-controller") as controller,
        nodes.run("slurm-plain", as_pod=name, SUNK_CPUS="2", SUNK_MEMORY="900") as node,
    ):
        primary(controller)
        ready(node, controller=controller)
        if drained:
            slurm(controller, "scontrol", "update", f"nodename={name}", "state=drain", "reason=alice: DRAIN, bad fan")

        shown = ""

        def left() -> bool:
            nonlocal shown
            node.run("env", f"POD_NAME={name}", *nodes.hook("slurm-plain"))
            shown = slurm(controller, "scontrol", "show", "node", name, "--oneliner")
            return " State=DOWN" in shown

        # A slurmctld that has just started asks nodes to register, and with ReturnToService=2 that brings one back.
        eventually(left, seconds=120)
        assert ("+DRAIN" in shown) is drained
        assert ("Reason=alice: DRAIN, bad fan " if drained else "Reason=k8s: pod terminated ") in shown


FAILS = {"90-check.sh": "#!/bin/sh\nexit 3\n"}
OURS, FOREIGN = "k8s: cordon: disk", "alice: bad fan"


@pytest.mark.parametrize("before", [OURS, FOREIGN])
def test_a_sick_node_says_so_over_a_drain_of_ours_and_not_over_a_persons(world: Make, before: str) -> None:
    name = "slurm-plain-012-003"
    after = {"defMemPerCPU": 100, "slurmd": {"epilogConfigmap": "after"}}
    made = world(OFF | {"slurmConfig": after, "compute": {"reservedMemory": "100Mi", "nodes": NODES_PLAIN}})
    made = msgspec.structs.replace(made, contents={**made.contents, "after": FAILS})
    with (
        made.run("slurm-controller") as controller,
        made.run("slurm-plain", as_pod=name, SUNK_CPUS="2", SUNK_MEMORY="900") as node,
    ):
        primary(controller)
        ready(node, controller=controller)

        def reason() -> str:
            return slurm(controller, "sinfo", "--noheader", f"--nodes={name}", "--format=%E").strip()

        slurm(controller, "sbatch", "--parsable", "--chdir=/", "--output=/dev/null", "--wrap=sleep 300")
        running = ("squeue", "--noheader", "--states=running", "--format=%i")
        wait_for(lambda: slurm(controller, *running).split() == ["1"], what="the job", patience=90)
        slurm(controller, "scontrol", "update", f"nodename={name}", "state=drain", f"reason={before}")
        idle = ("scontrol", "show", "node", name, "--oneliner")
        drained = " State=IDLE+DRAIN+DYNAMIC_NORM "

        def over() -> bool:
            # Told until it hears: what is said to a job that is only being started is lost.
            if slurm(controller, *running):
                slurm(controller, "sh", "-c", "scancel 1 || true")  # it may have ended this moment
            return drained in slurm(controller, *idle)

        wait_for(over, what="the end of the job")
        expected = before if before == FOREIGN else "epilog 90-check.sh exited with code 3, job 1"
        wait_for(lambda: reason() == expected, what=expected)

        slurm(controller, "scontrol", "update", f"nodename={name}", "state=drain", f"reason={before}")
        node.run("env", "-i", "SLURM_JOB_ID=7", "/etc/sunk/scripts/unkillable")
        assert reason() == (before if before == FOREIGN else "unkillable processes of job 7")


def test_a_definition_without_resources_takes_what_the_node_has(nodes: World) -> None:
    with (
        nodes.run("slurm-controller") as controller,
        nodes.run("slurm-plain", as_pod="slurm-plain-012-003", SUNK_CPUS="2", SUNK_MEMORY="900") as node,
    ):
        primary(controller)
        ready(node, controller=controller)
        shown = slurm(controller, "scontrol", "show", "node", "slurm-plain-012-003")
        assert "CPUTot=2" in shown
        assert "RealMemory=900" in shown
        assert "MemSpecLimit=100" in shown
        assert controller.run("srun", "--chdir=/", "-n2", "hostname").split() == ["slurm-plain-012-003"] * 2


def test_people_reach_slurm_from_a_login_pod(world: Make) -> None:
    it = world(OFF)
    with it.run("slurm-controller") as controller, it.run("slurm-login", as_pod="slurm-login-0") as login:
        primary(controller)
        wait_for(lambda: succeeds(login, *it.probe("slurm-login"), user=0), what="a place to log in")
        assert login.run("sinfo", "--noheader", "--format=%P", user=1001) == "all*"


def test_a_program_reaches_slurm_by_rest_with_a_token(world: Make) -> None:
    it = world(OFF | {"rest": {"enabled": True}})
    with it.run("slurm-controller") as controller, it.run("slurm-rest", as_pod="slurm-rest-0") as rest:
        primary(controller)
        token = slurm(controller, "scontrol", "token", "username=slurm").partition("=")[2]
        address = "http://127.0.0.1:6820/slurm/v0.0.42/ping"
        asked = ("curl", "--silent", "--show-error", "-H", f"X-SLURM-USER-TOKEN: {token}", address)
        wait_for(lambda: "listen" in rest.said().lower() or "6820" in rest.run("ss", "-ltn"), what="slurmrestd")
        assert '"pinged": "UP"' in rest.run(*asked)


def test_a_token_that_would_live_too_long_is_refused(world: Make) -> None:
    it = world(OFF | {"rest": {"enabled": True, "maxTokenLifespan": 600}})
    with it.run("slurm-controller") as controller:
        primary(controller)
        assert complaints(controller.said()) == []
        # As `games`, since a name is asked for that slurmctld knows; SlurmUser may have any.
        assert succeeds(controller, "scontrol", "token", "lifespan=600", user=5)
        assert not succeeds(controller, "scontrol", "token", "lifespan=601", user=5)
        assert not succeeds(controller, "scontrol", "token", "lifespan=infinite", user=5)
        assert "exceeds limit of 600" in controller.said()


@contextmanager
def accounting(world: Make, version: str) -> Iterator[World]:
    """A database and slurmdbd that run, as the defaults have them."""
    it = world({}, mysql=images.root_file_system("mariadb", slurm=version))
    with it.run("slurm-mysql", as_pod="slurm-mysql-0") as database, it.run("slurm-accounting") as daemon:
        probe = it.probe("slurm-mysql")
        wait_for(lambda: succeeds(database, *probe, user=DATABASE_USER), what="the database", patience=150)
        wait_for(lambda: "slurmdbd version" in daemon.said(), what=f"slurmdbd: {daemon.said()}", patience=150)
        yield it


def test_accounting_works_from_the_defaults_on(world: Make, version: str) -> None:
    with accounting(world, version) as it, it.run("slurm-controller") as controller:
        primary(controller)
        clusters = ("sacctmgr", "-n", "-P", "show", "cluster", "format=cluster")
        wait_for(lambda: slurm(controller, *clusters) == "slurm", what="the cluster in the database")
        slurm(controller, "sacctmgr", "-i", "add", "account", "lab")
        assert "lab" in slurm(controller, "sacctmgr", "-n", "-P", "show", "account", "format=account").split()
        assert config(controller)["AccountingStorageEnforce"] == "associations,limits,qos"


STATE = "var/spool/slurmctld"


@pytest.mark.full
def test_a_slurmctld_that_was_killed_in_its_first_minutes_starts_again_with_its_jobs(world: Make, version: str) -> None:
    with accounting(world, version) as it:
        with it.run("slurm-controller") as first:
            primary(first)
            number = first.run("sbatch", "--parsable", "--hold", "--chdir=/", "--wrap=true")
            left = first.files / STATE
            wait_for((left / "job_state").exists, what="the job on the disk")
        assert not (left / "assoc_usage").exists()

        with it.run("slurm-controller", left={STATE: left}) as second:
            primary(second)
            assert "starting without it" in second.said()
            assert slurm(second, "squeue", "--noheader", "--format=%i") == number
            second.stop()
            saved = second.files / STATE
        assert (saved / "assoc_usage").exists()


@pytest.mark.full
def test_accounting_can_be_switched_on_later_and_jobs_stay(world: Make, version: str) -> None:
    with world(OFF).run("slurm-controller") as first:
        primary(first)
        number = first.run("sbatch", "--parsable", "--hold", "--chdir=/", "--wrap=true")
        first.stop()
        left = first.files / STATE

    with accounting(world, version) as it:
        with it.run("slurm-controller", left={STATE: left}) as second:
            primary(second)
            assert slurm(second, "squeue", "--noheader", "--format=%i") == number
            second.stop()
            left = second.files / STATE
        with it.run("slurm-controller", left={STATE: left}) as third:
            primary(third)
            assert "taking the cluster ID" not in third.said()
            assert slurm(third, "squeue", "--noheader", "--format=%i") == number
