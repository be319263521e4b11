"""A cluster with two directories, the people in them, and what is asked about them: shared by the modules about people.

`campus` is read over LDAPS with a bind DN and a snippet (rfc2307). `labs` demands a client certificate and has no bind DN, as
Google's (rfc2307bis, StartTLS). Both have a user `twin`.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import json
from tests.conftest import Kubectl
from tests.e2e.slurmcluster.directories import (
    Server,
    group,
    group_of_entries,
    person,
    reached_by_certificate,
    reached_by_tls,
)
from tests.e2e.slurmcluster.release import ON_FIRST, Release, on
from tests.e2e.slurmcluster.visitors import Entrance, entrance, key_pair
from tests.waiting import eventually

from sunk.local.certificates import Authority
from sunk.model import names

CAMPUS: Final = "dc=campus,dc=test"
LABS: Final = "o=labs"
PEOPLE, ADMINS, LAB = 3000, 3100, 4000
KEYS: Final = key_pair()
STATED: Final = 180.0
"""Within so many seconds a change in a directory is known everywhere: the figure in docs/guides/users.md."""
AVAILABLE: Final = "DirectoriesAvailable"
AUTHORITY: Final = Authority("CA of the tests")
PASSWORDS: Final = {
    "bob": "bob's $ecret",
    "carol": "c@rol \\1",
    "twin": "tw1n-campus",
    "lena": "lena's",
    "twin of labs": "tw1n-labs",
}
OF_CAMPUS: Final = reached_by_tls("campus", suffix=CAMPUS, sudoGroups=["admins"], user={"canary": "bob"})
OF_LABS: Final = reached_by_certificate("labs", suffix=LABS)
# All visitors come from this machine, and by their addresses sshd would shut out the next ones for what the last have tried.
SERVICE: Final = {"perPod": True, "externalTrafficPolicy": "Cluster"}
VALUES: Final = {
    "nodeSelector": ON_FIRST,
    "directoryService": {"refreshInterval": 5, "directories": [OF_CAMPUS, OF_LABS]},
    "accounting": {"userAccounts": {"rules": [{"account": "science", "group": "people"}, {"account": "guests"}]}},
    "login": {"replicas": 2, "sessionWaitSeconds": 120, "service": SERVICE},
    "compute": {"ssh": {"enabled": True}, "nodes": {"cpu": {"affinity": on("cpu")}}},
}


def campus(kubectl: Kubectl) -> Server:
    return Server(kubectl, "campus", CAMPUS, certificate=AUTHORITY.issue("campus"), settings={"ANONYMOUS": "no"})


def labs(kubectl: Kubectl) -> Server:
    return Server(
        kubectl,
        "labs",
        LABS,
        certificate=AUTHORITY.issue("labs"),
        settings={"SCHEMA": "rfc2307bis", "CLIENT_CERTIFICATES": "demand"},
    )


@contextmanager
def served(kubectl: Kubectl) -> Iterator[dict[str, Server]]:
    """Both servers with their people, before the cluster that reads them."""
    servers = {one.name: one for one in (campus(kubectl), labs(kubectl))}
    servers["campus"].secrets()
    servers["labs"].secrets(client=AUTHORITY.issue("slurm"))
    servers["campus"].start(*_people_of_campus())
    servers["labs"].start(*_people_of_labs())
    for one in servers.values():
        one.ready()
    try:
        yield servers
    finally:
        for one in servers.values():
            one.remove()


def _people_of_campus() -> Iterator[str]:
    def one(name: str, uid: int, **more: Any) -> str:
        return person(name, suffix=CAMPUS, uid=uid, gid=PEOPLE, password=PASSWORDS.get(name, ""), **more)

    yield one("bob", 3001, keys=[KEYS.public])
    yield one("carol", 3002)
    yield one("twin", 3003)
    yield one("dave", 3004, keys=[KEYS.public], shadowExpire="1")
    yield one("mallory", 0, keys=[KEYS.public])
    yield group("people", suffix=CAMPUS, gid=PEOPLE)
    yield group("admins", suffix=CAMPUS, gid=ADMINS, members=["bob"])


def _people_of_labs() -> Iterator[str]:
    yield person("lena", suffix=LABS, uid=4001, gid=LAB, password=PASSWORDS["lena"], keys=[KEYS.public])
    yield person("twin", suffix=LABS, uid=4003, gid=LAB, password=PASSWORDS["twin of labs"])
    yield group_of_entries("lab", suffix=LABS, gid=LAB, members=["lena"])
    # Not the group that may use sudo: that one is of campus.
    yield group_of_entries("admins", suffix=LABS, gid=4100, members=["lena"])


# What is asked


def submit(slurm: Release, user: str, script: str, *options: str) -> str:
    """Have a job of a user of a directory wait in the queue; gives its number. Their groups are not named like them."""
    plain = ("sbatch", "--parsable", "--chdir=/tmp", "--output=/dev/null")
    return slurm("runuser", "-u", user, "--", *plain, *options, f"--wrap={script}").strip()


def directories(*more: dict[str, Any], **service: Any) -> dict[str, Any]:
    """Values with these directories behind the two."""
    told = {"refreshInterval": 5, "directories": [OF_CAMPUS, OF_LABS, *more]} | service
    return {"directoryService": told}


def asked_about(slurm: Release, name: str, *options: str) -> dict[str, Any]:
    """What `sunk user` says."""
    where = ("--namespace", slurm.kubectl.namespace, "--kubeconfig", str(slurm.kubectl.kubeconfig))
    command = [str(Path(sys.executable).with_name("sunk")), "user", name, "--json", *where, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in {0, 1}, done.stderr
    found: dict[str, Any] = json.decode(done.stdout)
    assert done.returncode == (0 if found["login"]["allowed"] and found["job"]["allowed"] else 1)
    return found


def reasons(verdict: dict[str, Any]) -> str:
    return "\n".join(one["text"] for one in verdict["reasons"])


def hurry(slurm: Release) -> None:
    """Have the kubelets bring what has changed now: a Pod that is changed is looked at, and its volumes with it."""
    chosen = ("-l", f"{names.CLUSTER}={slurm.name}")
    slurm.kubectl("annotate", "pods", *chosen, f"test.sunk/hurry={time.time_ns()}", "--overwrite")


def known(slurm: Release, user: str, *, pod: str = "", container: str = "sshd") -> str:
    """What `id` says in a container; empty if the user is not known there."""
    where = pod or f"{slurm.name}-login-0"
    return slurm.kubectl("exec", where, "-c", container, "--", "sh", "-c", f"id {user} 2> /dev/null || true").strip()


def everywhere(slurm: Release) -> list[tuple[str, str]]:
    """Pods that have to know users, each with the container to ask."""
    logins = [(f"{slurm.name}-login-{number}", "sshd") for number in range(2)]
    nodes = [(name, names.SLURMD) for name in slurm("sinfo", "--noheader", "-N", "-p", "all", "-o", "%N").split()]
    return [(f"deployment/{slurm.name}-controller", "slurmctld"), *logins, *nodes]


def become_known(slurm: Release, user: str, *, seconds: float = STATED) -> None:
    """Wait until all Pods know somebody."""
    _soon(slurm, lambda pod, container: known(slurm, user, pod=pod, container=container) != "", seconds=seconds)


def become_unknown(slurm: Release, user: str, *, seconds: float = STATED) -> None:
    _soon(slurm, lambda pod, container: known(slurm, user, pod=pod, container=container) == "", seconds=seconds)


def _soon(slurm: Release, check: Callable[[str, str], bool], *, seconds: float) -> None:
    def so() -> bool:
        if all(check(pod, container) for pod, container in everywhere(slurm)):
            return True
        hurry(slurm)
        return False

    eventually(so, seconds=seconds)


def told(slurm: Release) -> str:
    """Reason and message of the condition about directories; empty while it holds."""
    found = slurm.condition(AVAILABLE)
    return f"{found['reason']}: {found['message']}" if found["status"] == "False" else ""


def all_well(slurm: Release) -> None:
    """Wait until every directory is read."""

    def well() -> bool:
        if slurm.condition(AVAILABLE)["status"] == "True":
            return True
        hurry(slurm)
        return False

    eventually(well, seconds=STATED)


# What is changed


def upgrade(slurm: Release, changes: dict[str, Any] | None = None) -> None:
    """Install with these values. Another certificate of a directory replaces the login Pods, through which all is asked."""
    slurm.install(changes)
    eventually(lambda: slurm.condition("Ready")["status"] != "")
    settle(slurm)


def settle(slurm: Release) -> None:
    """Wait for the login Pods, one of which may be on its way."""
    slurm.kubectl("rollout", "status", f"statefulset/{slurm.name}-login", "--timeout=280s", timeout=300)


def opened(slurm: Release, folder: Path) -> Entrance:
    """Wait until people of both directories can log in and run jobs."""
    for user in ("bob", "lena"):
        become_known(slurm, user)
        eventually(partial(_has_account, slurm, user), seconds=STATED)
    return entrance(slurm, folder)


def _has_account(slurm: Release, user: str) -> bool:
    return slurm("sacctmgr", "-nP", "list", "associations", f"user={user}", "format=account").strip() != ""
