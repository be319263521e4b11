"""The key of Slurm is exchanged under running jobs, one daemon at a time, and nothing notices."""

import os
import secrets
from collections.abc import Iterator
from functools import partial

import pytest
from tests.versions import BOTH
from tests.waiting import eventually

from sunk.local import slurm as slurms
from sunk.local.slurm import Slurm
from sunk.local.slurm.boxes.box import SLURM_USER
from sunk.model.contract import keyset
from sunk.model.contract.keyset import KeySet

pytestmark = pytest.mark.timeout(1800)

NODES = ("n1", "n2")
REFUSED = "Protocol authentication error"
EVERYWHERE = ("etc", "key", "dbd")
"""slurmctld's folder, that of nodes and logins, and slurmdbd's."""


@pytest.fixture(scope="module", params=BOTH)
def slurm(request: pytest.FixtureRequest) -> Iterator[Slurm]:
    with slurms.cluster(nodes=NODES, version=request.param, accounting=True) as it:
        it.run("sacctmgr", "-i", "add", "account", "lab")
        it.run("sacctmgr", "-i", "add", "user", "alice", "account=lab")
        yield it


def place(slurm: Slurm, wanted: KeySet, *folders: str) -> None:
    """As the Secret reaches Pods: both files, complete before they have their names."""
    for folder in folders:
        for name, content in ((keyset.SLURM_JWKS, wanted.encode()), (keyset.SLURM_KEY, wanted.default.value)):
            path = slurm.layout.folder / folder / name
            fresh = path.with_suffix(".new")
            fresh.write_bytes(content)
            fresh.chmod(0o400)
            os.chown(fresh, SLURM_USER, SLURM_USER)
            fresh.rename(path)


def held(slurm: Slurm) -> KeySet:
    return keyset.alone((slurm.layout.folder / "etc" / "slurm.key").read_bytes())


def works(slurm: Slurm) -> None:
    """Everybody believes everybody: clients, slurmctld, both nodes, steps, slurmdbd."""
    slurm.expect(NODES, "IDLE", "MIXED", without=())
    assert sorted(said(slurm, "srun", "-N2", "hostname").split()) == list(NODES)
    assert "lab" in said(slurm, "sacctmgr", "-n", "-P", "show", "account", "format=account")
    number = said(slurm, "sbatch", "--parsable", "--chdir=/tmp", "--output=/dev/null", "--wrap=srun true").strip()
    eventually(lambda: "COMPLETED" in said(slurm, "scontrol", "show", "job", number), seconds=180)


def said(slurm: Slurm, *command: str) -> str:
    """What a command of alice says. A reconfigure starts sackd again too, some time later, and while it does nobody signs."""
    answers: list[str] = []

    def succeeds() -> bool:
        answer = slurm.attempt(*command, uid=1001)
        answers.append(answer.out)
        return answer.code == 0

    eventually(succeeds, seconds=120)
    return answers[-1]


def under_way(told: str) -> bool:
    return any(f"JobState={state}" in told for state in ("RUNNING", "COMPLETING"))


def test_a_key_is_exchanged_one_daemon_at_a_time_under_a_running_job(slurm: Slurm) -> None:
    running = slurm.run(
        *("sbatch", "--parsable", "--nodelist=n1", "--chdir=/tmp", "--output=/tmp/said"),
        "--wrap=while [ ! -e /home/alice/over ]; do srun true || exit 3; sleep 1; done",
        uid=1001,
    ).strip()
    old = held(slurm)
    both = old.add(secrets.token_bytes(1024), kid="second")

    # slurmctld knows the second key while nodes and slurmdbd still have one without an id.
    place(slurm, both, "etc")
    slurm.run("scontrol", "reconfigure")
    works(slurm)
    place(slurm, both, *EVERYWHERE)
    restart(slurm, "accounting")
    slurm.run("scontrol", "reconfigure")
    works(slurm)

    # One node signs with the new key before anybody else does, then nodes and logins, then slurmdbd, then slurmctld.
    used = both.use("second")
    place(slurm, used, "key")
    restart(slurm, "n2")
    works(slurm)
    restart(slurm, "login")
    works(slurm)
    place(slurm, used, "dbd")
    restart(slurm, "accounting")
    works(slurm)
    place(slurm, used, "etc")
    slurm.run("scontrol", "reconfigure")
    works(slurm)

    place(slurm, used.drop(keyset.FIRST), *EVERYWHERE)
    restart(slurm, "accounting")
    slurm.run("scontrol", "reconfigure")
    works(slurm)
    assert "JobState=RUNNING" in slurm.run("scontrol", "show", "job", running)
    slurm.run("touch", "/home/alice/over", on="n1")
    # A step that could not be made at the first try is tried again after up to a minute.
    eventually(lambda: not under_way(slurm.run("scontrol", "show", "job", running)), seconds=300)
    assert "JobState=COMPLETED" in (told := slurm.run("scontrol", "show", "job", running)), told


def test_who_has_only_another_key_is_not_believed(slurm: Slurm) -> None:
    # Tests come in any order, and once the key was exchanged it has another name.
    exchanged = (slurm.layout.folder / "key" / keyset.SLURM_JWKS).exists()
    kid = "second" if exchanged else keyset.FIRST
    kept = keyset.alone((slurm.layout.folder / "etc" / keyset.SLURM_KEY).read_bytes(), kid=kid)
    place(slurm, keyset.alone(secrets.token_bytes(1024), kid="second"), "key")
    slurm.stop("login")
    slurm.machines.start("login")  # and wait for nothing: it may not even get a configuration
    # 26.05 looks for a configuration for a minute.
    tried = partial(slurm.attempt, "sinfo", uid=1001, timeout=120)
    eventually(lambda: tried().code != 0 and REFUSED in slurm.machines.words("controller"), seconds=400)
    place(slurm, kept, "key")
    restart(slurm, "login")
    works(slurm)


def restart(slurm: Slurm, name: str) -> None:
    slurm.stop(name)
    slurm.start(name)


def test_a_command_that_signs_for_itself_has_to_be_told_where_the_key_is(slurm: Slurm) -> None:
    command = ("srun", "--no-allocate", "--nodelist=n1", "--nodes=1", "hostname")
    assert "'/run/slurm/conf/slurm.key'" in slurm.attempt(*command).err, "Slurm looks beside what it was sent"
    assert slurm.run(*command, env={"SLURM_SACK_KEY": "/etc/slurm/slurm.key"}) == "n1\n"
