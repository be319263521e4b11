"""A configuration is tried by a real slurmctld and a real slurmd, in a Pod without privileges and devices."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct
from tests.box import network
from tests.integration.slurmcluster.pods import World, contents
from tests.versions import BOTH

from sunk.local.artifacts import images
from sunk.model.cluster.kind import SlurmClusterSpec
from sunk.operator.slurmcluster.objects import marked
from sunk.operator.slurmcluster.resolve import resolve
from sunk.operator.slurmcluster.rollout.trial import slurm_trials
from sunk.operator.slurmcluster.slurmconf.conf import configuration

NODES = {"nodes": {"cpu": {"enabled": True, "skuCpu": 2}, "gpu": {"enabled": True, "gresGpu": "h100:8"}}}
ACCOUNTED = {"accounting": {"enabled": True}}
LUA = (
    "function slurm_job_submit(a, b, c) return slurm.SUCCESS end\nfunction slurm_job_modify(a, b, c, d) return 0 end\n"
)


class Case(Struct, frozen=True):
    slurm: dict[str, Any] = {}
    """slurmConfig in the values."""
    compute: dict[str, Any] = {}
    more: dict[str, Any] = {}
    etc: dict[str, str] = {}
    """People's own files."""
    said: str = ""


UNLOCKED = {"syncer": {"enabled": False}}
"""Where nothing waits for the lock people may name a prolog of their own."""


def extra(text: str) -> dict[str, Any]:
    return {"extraConfig": text}


def cgroups(task: str = "task/cgroup,task/affinity", **conf: str) -> dict[str, Any]:
    return {"slurmCtld": {"procTrackType": "proctrack/cgroup", "taskPlugin": task}, "cgroupConfig": conf}


GOOD = {
    "the usual values": Case(),
    "without nodes": Case(compute={"nodes": {}}),
    "control groups": Case(slurm=cgroups(ConstrainCores="yes"), more=ACCOUNTED),
    "nothing but control groups": Case(slurm=cgroups("task/cgroup", CgroupPlugin="cgroup/v2")),
    "devices that are not here": Case(
        slurm={"gresConfig": "NodeName=slurm-gpu-000-000 Name=gpu Type=h100 File=/dev/nvidia[0-3],/dev/nvidia[4-7]\n"}
    ),
    "drivers that are not here": Case(slurm={"gresConfig": "AutoDetect=nvml\n"}),
    "a REST service": Case(more={"rest": {"enabled": True}}),
    "files of a volume": Case(
        slurm=extra("Prolog=/shared/prolog\n"),
        compute={"mounts": [{"name": "/shared", "pvc": "shared"}]},
        more=UNLOCKED,
    ),
    "files that a script brings": Case(
        slurm=extra("Epilog=/opt/epilog\n"), compute={"s6": {"bring": {"type": "oneshot", "script": "true"}}}
    ),
    "a plugin of a volume": Case(
        etc={"plugstack.conf": "required /shared/spank.so\n"},
        compute={"mounts": [{"name": "/shared", "pvc": "shared"}]},
    ),
    "a folder only root can make": Case(
        slurm=extra("JobContainerType=job_container/tmpfs\nPrologFlags=Contain,DeferBatch\n"),
        etc={"job_container.conf": "BasePath=/nowhere\nAutoBasePath=true\n"},
    ),
    "daemons that write elsewhere and little": Case(
        slurm=extra("SlurmctldDebug=quiet\nSlurmdDebug=error\nSlurmctldLogFile=/var/log/x\nSlurmdLogFile=/var/log/y\n")
    ),
    "a check of a node's health": Case(slurm=extra("HealthCheckProgram=/bin/false\nHealthCheckInterval=1\n")),
    "a script for submissions": Case(slurm=extra("JobSubmitPlugins=lua\n"), etc={"job_submit.lua": LUA}),
}
BAD = {
    "a task plugin": Case(
        slurm={"slurmCtld": {"taskPlugin": "task/afinity"}}, said="TaskPlugin=task/afinity: slurmd cannot start"
    ),
    "a task plugin among control groups": Case(
        slurm=cgroups("task/cgroup,task/afinity"), said="localhost/slurm:24.11 has no plugin task/afinity"
    ),
    "a tracking plugin": Case(
        slurm={"slurmCtld": {"procTrackType": "proctrack/linuxprc"}}, said="ProctrackType=proctrack/linuxprc: "
    ),
    "a gathering plugin": Case(
        slurm=extra("JobAcctGatherType=jobacct_gather/linx\n"), more=ACCOUNTED, said="jobacct_gather/linx"
    ),
    "control groups of no version": Case(slurm=cgroups(CgroupPlugin="cgroup/v3"), said="CgroupPlugin=cgroup/v3: "),
    "a key of control groups": Case(slurm=cgroups(ConstrainRamSpce="yes"), said="ConstrainRamSpce"),
    "a key of devices": Case(
        slurm={"gresConfig": "Name=gpu Typ=h100 File=/dev/nvidia[0-7]\n"}, said="Typ=h100 File=/dev"
    ),
    "other devices": Case(
        slurm={"gresConfig": "Name=gpu Type=a100 File=/dev/nvidia[0-7]\n"},
        said="reported lower than configured (0 < 8)",
    ),
    "a prolog": Case(
        slurm=extra("Prolog=/opt/prolog\n"),
        more=UNLOCKED,
        said="Prolog=/opt/prolog: no such file in the compute image",
    ),
    "an MPI plugin": Case(slurm=extra("MpiDefault=pmi9\n"), said="MpiDefault=pmi9: "),
    "a required plugin of people": Case(
        etc={"plugstack.conf": "required /opt/spank.so\n"}, said="plugstack.conf:1: Failed to load plugin /opt/spank.so"
    ),
    "a script for submissions": Case(
        slurm=extra("JobSubmitPlugins=lua\n"), etc={"job_submit.lua": f"functio {LUA}"}, said="job_submit.lua:1: "
    ),
    "a word of slurmctld": Case(slurm=extra("SelectTypeParameters=CR_Foo\n"), said="Bad SelectTypeParameter: CR_Foo"),
}
Try = Callable[[Case], tuple[int, str]]


@pytest.fixture(scope="module", params=BOTH)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def attempt(version: str, tmp_path: Path) -> Iterator[Try]:
    """Run the first trial of a cluster; gives its exit code and its words."""
    with network() as net:

        def run(case: Case) -> tuple[int, str]:
            values = {"accounting": {"enabled": False}, **case.more, "slurmConfig": case.slurm}
            spec = msgspec.convert(values | {"compute": {**NODES, **case.compute}}, SlurmClusterSpec)
            made = resolve(spec, name="slurm", namespace="default")
            trial = slurm_trials(made, *marked({**case.etc, **configuration(made)}, cluster=made))[0]
            known = contents(made) | {trial.candidate["metadata"]["name"]: trial.candidate["data"]}
            files = {"slurm": images.root_file_system("slurm", slurm=version)}
            with World(made, images=files, network=net, folder=tmp_path, contents=known).probe_pod(trial.pod) as box:
                return box.process.wait(240), box.said()

        yield run


@pytest.mark.parametrize("case", GOOD.values(), ids=GOOD.keys())
def test_what_a_real_node_can_run_with_is_taken(attempt: Try, case: Case) -> None:
    assert attempt(case) == (0, "")


@pytest.mark.parametrize("case", BAD.values(), ids=BAD.keys())
def test_what_would_stop_slurmctld_or_every_node_is_refused_by_its_line(attempt: Try, case: Case) -> None:
    code, said = attempt(case)
    assert code == 1
    assert case.said in said
    # That there is no state to begin with is due to the trial, and would frighten whoever reads it.
    assert "may be lost" not in said
    assert "/tmp" not in said, "nor where it was tried"  # noqa: S108
