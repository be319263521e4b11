"""Accounting for real: who ran what is known, who may is kept to, and a database that goes away loses nothing."""

from collections.abc import Iterator

import pytest
from tests.e2e.slurmcluster.release import Release, on
from tests.waiting import eventually

pytestmark = pytest.mark.full

KINDS = ("cpu", "cpu", "cpu")
VALUES = {"compute": {"nodes": {"cpu": {"affinity": on("cpu")}}}}
USER = "games"
"""One that the image knows, so that every node does."""


@pytest.fixture(autouse=True)
def afterwards_nothing_is_queued(slurm: Release) -> Iterator[None]:
    yield
    slurm.cancel()


@pytest.fixture
def member(slurm: Release) -> Iterator[str]:
    """A user with an account and a QOS that lets one job of hers run at a time."""
    ask = ("sacctmgr", "--immediate")
    slurm(*ask, "add", "account", "team")
    slurm(*ask, "add", "user", USER, "account=team")
    slurm(*ask, "add", "qos", "one", "MaxJobsPerUser=1")
    slurm(*ask, "modify", "user", USER, "set", "qos=one", "defaultqos=one")
    slurm.admits(USER)
    yield USER
    slurm.cancel()
    gone = "; ".join(f"sacctmgr --immediate delete {what}" for what in (f"user {USER}", "account team", "qos one"))
    left = "sacctmgr --noheader list associations format=user; sacctmgr --noheader list qos format=name"

    def forgotten() -> bool:
        # Refused while the database has not heard that her jobs have ended.
        return not {USER, "one"} & {*slurm("sh", "-c", f"{{ {gone}; }} > /dev/null 2>&1; {left}").split()}

    eventually(forgotten)


def recorded(slurm: Release, *jobs: str) -> dict[str, str]:
    """What the database has about jobs: number and state. Nothing while slurmdbd does not answer."""
    wanted = f"--noheader --parsable2 --allocations --format=JobID,State --jobs={','.join(jobs)}"
    return dict(line.split("|") for line in slurm("sh", "-c", f"sacct {wanted} || true").splitlines())


def test_what_ran_is_known(slurm: Release) -> None:
    well, badly = slurm.submit("true"), slurm.submit("exit 3")
    slurm.ends(well)
    slurm.ends(badly, "FAILED")
    eventually(lambda: recorded(slurm, well, badly) == {well: "COMPLETED", badly: "FAILED"})


def test_only_members_run_jobs_and_their_limit_is_kept(slurm: Release, member: str) -> None:
    stranger = slurm("sh", "-c", "cd /tmp; setpriv --reuid=bin --regid=bin --clear-groups sbatch --wrap true 2>&1 || :")
    assert "Invalid account" in stranger

    jobs = [slurm.submit("sleep 3600", user=member) for _ in range(2)]
    slurm.runs(jobs[0])
    eventually(lambda: slurm.job(jobs[1], "Reason") == "QOSMaxJobsPerUserLimit")
    slurm("scancel", jobs[0])
    slurm.runs(jobs[1])
    assert slurm.job(jobs[1], "Account") == "team"


def test_nothing_is_lost_while_the_database_and_slurmdbd_are_away(slurm: Release) -> None:
    running = slurm.submit("sleep 20")
    slurm.runs(running)
    before = slurm.pods("mysql"), slurm.pods("accounting")
    slurm.kubectl("delete", "pod", "--wait=false", "-l", "app.kubernetes.io/name in (slurm-mysql, slurmdbd)")
    meanwhile = [slurm.submit("true") for _ in range(3)]
    for one in meanwhile:
        slurm.ends(one)
    slurm.kubectl("rollout", "status", "statefulset/slurm-mysql", "--timeout=110s")
    slurm.kubectl("rollout", "status", "deployment/slurm-accounting", "--timeout=110s")
    assert (slurm.pods("mysql"), slurm.pods("accounting")) != before
    slurm.ends(running)
    jobs = [running, *meanwhile]
    eventually(lambda: recorded(slurm, *jobs) == dict.fromkeys(jobs, "COMPLETED"))
