"""Values that change reach Slurm without harm to jobs, and those that are wrong reach nothing but a condition."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import Struct, json
from tests.e2e.slurmcluster.release import LABEL, SOON, USER, Release, on
from tests.waiting import eventually

pytestmark = pytest.mark.full

KINDS = ("cpu", "cpu", "spare")
ALL = "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
VALUES = {"compute": {"nodes": {"cpu": {"affinity": on("cpu")}}}}

BROKEN = "#!/bin/sh\necho no license >&2\nexit 7\n"
SCRIPTS: dict[str, Any] = {
    "login": {
        "s6": {
            # By name the other way round.
            "a-answer": {"type": "oneshot", "script": "cp /run/greeting /run/answer", "dependencies": ["greeting"]},
            "greeting": {"type": "oneshot", "script": "echo hello > /run/greeting"},
        }
    }
}
SPARE = {"compute": {"nodes": {"spare": {"enabled": True, "definitions": ["cpu"], "affinity": on("spare")}}}}


@pytest.fixture(autouse=True)
def job(slurm: Release) -> Iterator[str]:
    """A job that must not notice what a test does, on a cluster that has its usual values afterwards."""
    number = slurm.submit("sleep 3600")
    slurm.runs(number)
    yield number
    assert (slurm.job(number), slurm.job(number, "Restarts")) == ("RUNNING", "0")
    slurm.install()
    slurm.ready()
    slurm.cancel()
    eventually(lambda: slurm.node_sets() == ["cpu"], seconds=SOON)


def everything(slurm: Release) -> list[str]:
    """Uids of all Pods but those that come and go."""
    return [uid for part in ("controller", "accounting", "mysql", "login", "compute") for uid in slurm.pods(part)]


# What is right


def test_a_new_configuration_comes_into_force_in_the_pods_there_are(slurm: Release) -> None:
    before = everything(slurm)
    partitions = f"{ALL}PartitionName=quick Nodes=ALL MaxTime=5\n"
    slurm.install({"slurmConfig": {"extraConfig": "MessageTimeout=33\n"}, "compute": {"partitions": partitions}})
    slurm.ready()
    assert "MessageTimeout          = 33" in slurm("scontrol", "show", "config")
    assert slurm("srun", "-p", "quick", "echo", "here").strip() == "here"
    # Without those that are down: other tests leave nodes behind that only Slurm still knows.
    up = ("-t", "idle,mixed,allocated")
    shown = ("sinfo", "--noheader", "-p", "quick", *up, "-o", "%l %D")
    eventually(lambda: slurm(*shown).split() == ["5:00", "2"])  # the job above may still be on its way out
    status = slurm.object()["status"]
    assert status["configWanted"] == status["configApplied"]
    assert everything(slurm) == before


def test_nodes_are_added_beside_a_running_job(slurm: Release) -> None:
    before = everything(slurm)
    slurm.install(SPARE)
    slurm.ready()
    assert slurm("srun", "-p", "spare", "hostname").startswith("slurm-spare-")
    assert set(before) < set(everything(slurm))


def test_a_definition_that_is_taken_out_waits_for_its_jobs_unless_a_person_forces_it(slurm: Release) -> None:
    before = everything(slurm)
    slurm.install(SPARE)
    slurm.ready()
    running = slurm.submit("sleep 3600", "-p", "spare")
    slurm.runs(running)
    all_ = everything(slurm)

    slurm.install()
    slurm.ready()
    leave = "the nodes of slurm-spare leave when their jobs have ended"
    eventually(lambda: leave in slurm.condition("NodeSetsAvailable")["message"])
    assert slurm.job(running) == "RUNNING"
    assert everything(slurm) == all_

    slurm.drop("spare")
    slurm.kubectl("wait", "--for=delete", "nodeset/slurm-spare", "--timeout=110s")
    assert everything(slurm) == before
    # It was killed there, and waits for a node that will not come.
    eventually(lambda: (slurm.job(running), slurm.job(running, "Restarts")) == ("PENDING", "1"), seconds=SOON)
    slurm("scancel", running)
    eventually(lambda: not slurm("sinfo", "--noheader", "-p", "spare"), seconds=SOON)


def test_a_partition_stays_until_no_job_names_it(slurm: Release) -> None:
    """M9."""
    before = everything(slurm)
    slurm.install({"compute": {"partitions": f"{ALL}PartitionName=short Nodes=ALL\n"}})
    slurm.ready()
    running = slurm.submit("sleep 3600", "-p", "short")
    slurm.runs(running)
    waiting = slurm.submit("true", "-p", "short", f"--dependency=afterany:{running}")

    slurm.install()
    eventually(lambda: slurm("sinfo", "--noheader", "-p", "short", "-o", "%a").strip() == "drain")
    slurm.ready()
    # Those of other tests may be on their way too.
    stays = re.compile(r"partition .*\bshort\b.* stays? drained")
    eventually(lambda: stays.search(slurm.condition("ConfigApplied")["message"]) is not None)
    assert "drain" in slurm("sh", "-c", "sbatch -p short --wrap true 2>&1 || :", user=USER).lower()
    assert slurm.job(running) == "RUNNING"

    slurm("scancel", running)
    slurm.ends(waiting)
    eventually(lambda: not slurm("sinfo", "--noheader", "-p", "short"), seconds=SOON)
    slurm.ready()
    assert everything(slurm) == before


def test_a_script_that_fails_keeps_one_node_out_and_is_named(slurm: Release) -> None:
    """The other node has a job, and waits for its turn, which does not come."""
    slurm.install(SCRIPTS | {"compute": {"s6": {"license": {"type": "oneshot", "script": BROKEN}}}})
    told = r"oneshot license exited with code 7.*no license"
    eventually(lambda: re.search(told, slurm.condition("NodeSetsAvailable")["message"]) is not None, seconds=SOON)
    (node_set,) = json.decode(slurm.kubectl("get", "nodesets", "-o", "json"))["items"]
    (ready,) = [each for each in node_set["status"]["conditions"] if each["type"] == "Ready"]
    assert re.search(told, ready["message"])
    (name,) = re.findall(r"(slurm-cpu-\S+): oneshot license", ready["message"])
    eventually(
        lambda: "oneshot license exited with code 7: no license" in slurm.kubectl("get", "pod", name, "-o", "yaml")
    )
    assert name not in slurm.idle()
    slurm.kubectl("rollout", "status", "statefulset/slurm-login", "--timeout=110s")
    assert slurm("cat", "/run/greeting", "/run/answer").split() == ["hello", "hello"]


COMMENT = """\
function slurm_job_submit(job, partitions, user) job.admin_comment = "%s" return slurm.SUCCESS end
function slurm_job_modify(job, record, partitions, user) return slurm.SUCCESS end
"""


def own_files(slurm: Release, script: str) -> None:
    found = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own"}, "data": {"job_submit.lua": script}}
    slurm.kubectl("apply", "--server-side", "-f", "-", stdin=json.encode(found).decode())


def commented(slurm: Release) -> str:
    """What the script for submissions does to a job."""
    return slurm.job(slurm.submit("true"), "AdminComment")


def test_an_edit_of_peoples_own_files_is_tried_and_comes_into_force_by_itself(slurm: Release) -> None:
    before = everything(slurm)
    own_files(slurm, COMMENT % "first")
    slurm.install({"slurmConfig": {"slurmCtld": {"etcConfigMap": "own"}, "extraConfig": "JobSubmitPlugins=lua\n"}})
    slurm.ready()
    assert commented(slurm) == "first"

    own_files(slurm, COMMENT % "second")
    eventually(lambda: commented(slurm) == "second", seconds=SOON)
    slurm.ready()

    own_files(slurm, f"functio {COMMENT % 'third'}")
    assert_refused(slurm, Mistake({}, "slurmConfig", "job_submit.lua:1: "))
    assert commented(slurm) == "second"
    own_files(slurm, COMMENT % "second")
    slurm.ready()
    assert everything(slurm) == before


def test_a_rest_service_answers_whoever_brings_a_token(slurm: Release) -> None:
    slurm.install({"rest": {"enabled": True}})
    slurm.ready()
    slurm.kubectl("rollout", "status", "deployment/slurm-rest", "--timeout=110s")
    token = slurm("scontrol", "token", "lifespan=3600", user="alice").strip().removeprefix("SLURM_JWT=")

    def asked(path: str, *, secret: str) -> str:
        headers = ("-H", "X-SLURM-USER-NAME: alice", "-H", f"X-SLURM-USER-TOKEN: {secret}")
        return slurm("curl", "--silent", "--max-time", "100", *headers, f"http://slurm-rest:6820{path}")

    # The proxy of the Node below us hears of it in its own time.
    connect = "curl --silent --max-time 100 --output /dev/null http://slurm-rest:6820/openapi/v3 && echo there || true"
    eventually(lambda: slurm("sh", "-c", connect) == "there\n")
    paths = json.decode(asked("/openapi/v3", secret=token))["paths"]
    version = max(re.findall(r"/slurm/(v[0-9.]+)/ping/", " ".join(paths)))
    pings = json.decode(asked(f"/slurm/{version}/ping/", secret=token))["pings"]
    assert [one["responding"] for one in pings] == [True]
    jobs = json.decode(asked(f"/slurm/{version}/jobs/", secret=token))["jobs"]
    assert "RUNNING" in [state for job in jobs for state in job["job_state"]]
    refused = json.decode(asked(f"/slurm/{version}/jobs/", secret=f"{token[:-8]}AAAAAAAA"))
    assert not refused["jobs"]
    assert any("authentication" in one["error"].lower() for one in refused["errors"])


# What is wrong


class Mistake(Struct, frozen=True):
    changes: dict[str, Any]
    path: str
    words: str


def _nodes(**definitions: dict[str, Any]) -> dict[str, Any]:
    return {"compute": {"nodes": definitions}}


CIRCLE = _nodes(cpu={"definitions": ["one"]}, one={"definitions": ["two"]}, two={"definitions": ["one"]})
ELSEWHERE = {"host": "elsewhere", "existingSecret": "nowhere"}
REFUSED = {
    "an unknown layer": Mistake(
        _nodes(cpu={"definitions": ["cpuu"]}), "compute.nodes.cpu.definitions[0]", "Did you mean cpu"
    ),
    "layers in a circle": Mistake(CIRCLE, "compute.nodes.cpu.definitions", "is a cycle"),
    "a text where a layer has a map": Mistake(
        _nodes(cpu={"affinity": {"nodeAffinity": "anywhere"}}), "compute.nodes.cpu.affinity.nodeAffinity", "map"
    ),
    "another line in a setting": Mistake(
        _nodes(cpu={"partitionConfig": {"MaxTime": "5\nInclude /etc/shadow"}}),
        "compute.nodes.cpu.partitionConfig.MaxTime",
        "another setting or line",
    ),
    "another file": Mistake(
        {"slurmConfig": {"extraConfig": "MessageTimeout=33\nInclude /etc/shadow\n"}},
        "slurmConfig.extraConfig",
        "would read a file",
    ),
    "a partition that is none": Mistake(
        {"compute": {"partitions": "PartitionName=all Nodes=ALL\nSlurmUser=root\n"}}, "compute.partitions", "SlurmUser"
    ),
    "a Secret that is not there": Mistake(
        {"accounting": {"external": ELSEWHERE}}, "accounting.external.existingSecret", "nowhere"
    ),
    "a claim that is not there": Mistake(
        {"controller": {"state": {"existingClaim": "nowhere"}}}, "controller.state.existingClaim", "nowhere"
    ),
    "a home that is not there": Mistake(
        {"compute": {"mounts": [{"name": "/home", "pvc": "nowhere"}]}}, "compute.mounts[0].pvc", "nowhere"
    ),
    "an address that no directory has": Mistake(
        {"directoryService": {"directories": [{"ldapUri": "http://ldap.example.com"}]}},
        "directoryService.directories[0].ldapUri",
        "must begin with ldaps:// or ldap://",
    ),
    "a script that waits for nobody": Mistake(
        {"compute": {"s6": {"one": {"type": "oneshot", "script": "true", "dependencies": ["two"]}}}},
        "compute.s6.one.dependencies[0]",
        "has no script two",
    ),
    "scripts that wait for each other": Mistake(
        {
            "login": {
                "s6": {
                    "one": {"type": "oneshot", "script": "true", "dependencies": ["two"]},
                    "two": {"type": "oneshot", "script": "true", "dependencies": ["one"]},
                }
            }
        },
        "login.s6.one.dependencies",
        "circle",
    ),
    "logins to nodes on the network of their machines": Mistake(
        {"compute": {"ssh": {"enabled": True}, "nodes": {"cpu": {"hostNetwork": True}}}},
        "compute.nodes.cpu.hostNetwork",
        "port 22",
    ),
    "a setting that slurmctld does not know": Mistake(
        {"slurmConfig": {"extraConfig": "NoSuchSetting=1\n"}}, "slurmConfig", "NoSuchSetting"
    ),
    "a plugin that nobody but slurmd looks for": Mistake(
        {"slurmConfig": {"slurmCtld": {"taskPlugin": "task/afinity"}}}, "slurmConfig", "TaskPlugin=task/afinity: slurmd"
    ),
    "a setting that slurmdbd does not know": Mistake(
        {"accounting": {"extraConfig": "NoSuchSetting=1\n"}}, "accounting.extraConfig", "NoSuchSetting"
    ),
}


def assert_refused(slurm: Release, mistake: Mistake) -> None:
    """It is told by a condition and by an Event, and nothing was touched."""

    def told(text: str) -> bool:
        return mistake.path in text and mistake.words in text

    eventually(lambda: told(slurm.condition("Ready")["message"]), seconds=SOON)
    assert slurm.condition("Ready")["status"] == slurm.condition("ConfigApplied")["status"] == "False"
    eventually(lambda: any(told(each) for each in slurm.warnings()))


@pytest.mark.parametrize("name", REFUSED)
def test_refused_is(slurm: Release, name: str) -> None:
    """M10."""
    before = everything(slurm)
    slurm.install(REFUSED[name].changes)
    assert_refused(slurm, REFUSED[name])
    assert everything(slurm) == before


def test_a_database_that_refuses_the_password_does_not_take_the_place_of_the_one_that_is_there(slurm: Release) -> None:
    before = everything(slurm)
    slurm.kubectl("create", "secret", "generic", "wrong", "--from-literal=password=guessed")
    slurm.install({"accounting": {"external": {"host": "slurm-mysql", "existingSecret": "wrong"}}})
    assert_refused(slurm, Mistake({}, "accounting.external", "Access denied for user 'slurm'"))
    assert everything(slurm) == before
    slurm.kubectl("delete", "secret", "wrong")


def test_an_image_that_is_not_there_does_not_take_the_place_of_the_one_that_is(slurm: Release) -> None:
    before = everything(slurm)
    slurm.install({"controller": {"image": {"tag": "nowhere", "pullPolicy": "Never"}}})
    eventually(lambda: "ErrImageNeverPull" in slurm.condition("ConfigApplied")["message"])
    assert slurm.condition("ConfigApplied")["reason"] == "Trying"
    assert everything(slurm) == before


def test_a_definition_that_no_node_satisfies_is_told_and_the_others_stay(slurm: Release) -> None:
    before = everything(slurm)
    slurm.install(_nodes(nowhere={"enabled": True, "definitions": ["cpu"], "affinity": on("nowhere")}))
    eventually(lambda: "compute.nodes.nowhere: no Node fits" in slurm.condition("NodeSetsAvailable")["message"])
    eventually(lambda: any("compute.nodes.nowhere" in each for each in slurm.warnings()))
    assert everything(slurm) == before

    slurm.kubectl("label", "node", "-l", f"{LABEL}=spare", f"{LABEL}=nowhere", "--overwrite")
    try:
        slurm.ready()
    finally:
        slurm.kubectl("label", "node", "-l", f"{LABEL}=nowhere", f"{LABEL}=spare", "--overwrite")


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"compute": {"nodes": {"cpu": {"replicas": "two"}}}}, "replicas"),
        ({"compute": {"nodes": {"cpu": {"definitons": []}}}}, "definitons"),
        ({"slurmConfig": {"cgroupConfig": {"ConstrainCores": "yes\nInclude /etc/shadow"}}}, "ConstrainCores"),
        (
            {"directoryService": {"directories": [{"additionalConfig": "ldap_default_authtok = x"}]}},
            "a password must not be in the SlurmCluster",
        ),
    ],
)
def test_helm_refuses_what_cannot_be_meant(slurm: Release, changes: dict[str, Any], path: str) -> None:
    assert path in slurm.attempt(changes)
