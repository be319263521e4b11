"""What users of a directory cost: a lookup on a compute node, and the directory's server while nothing changes.

Everything is real but the 300 further nodes: three machines with Slurm in Pods, slapd with a thousand users in fifty groups,
and the directory agent. Lookups are timed where jobs run, each in a process of its own (`id`), with the directory up and
down; beside them those of a user of the image, which is what a process and a small file cost by themselves. Searches are
counted in the log of slapd. The kubelets of the 300 nodes are played: their Pods exist, with all that the operator makes for
them, and nothing runs in them.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

import yaml
from msgspec import json
from tests.conftest import Kubectl
from tests.e2e.slurmcluster.directories import Server, group, person, reached_by_tls

from bench.installed import installed
from bench.report import Figure, report
from sunk.local.certificates import Authority
from sunk.local.fakekubelet import Settings, spawned
from sunk.local.install import NAMESPACE, SLURM, Tools
from sunk.local.paths import project
from sunk.local.progress import step
from sunk.model import names
from sunk.model.contract import people

NAME: Final = "bench-users"
NODES: Final = 3
SUFFIX: Final = "dc=bench,dc=test"
DIRECTORY: Final = "bench"
USERS, GROUPS = 1000, 50
LABEL: Final = "bench.sunk/played"
GRACE: Final = 40.0
"""Of the controller-manager of a cluster with nodes: leases of played Nodes are renewed well within it."""
PATIENCE: Final = 300.0
TIMED: Final = """\
for ((n = 0; n < $2; n++)); do
    began=${EPOCHREALTIME/./}
    id "$1" > /dev/null
    echo $((${EPOCHREALTIME/./} - began))
done
"""


def values(*, played: int) -> dict[str, Any]:
    """Slurm with the directory, and with a second kind of nodes if some are played."""
    exists = {"matchExpressions": [{"key": LABEL, "operator": "Exists"}]}
    needed = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [exists]}}}
    return {
        # Nothing that has to run may get to a Node that is played, and nobody registers from there.
        "nodeSelector": {"labels": {"kubernetes.io/hostname": "node-1"}},
        "syncer": {"config": {"syncer": {"restartUnknownAfter": 86_400, "notReadyAfter": 86_400}}},
        "directoryService": {"directories": [reached_by_tls(DIRECTORY, suffix=SUFFIX)]},
        "compute": {
            "maxNodeCount": 1024,
            "nodes": {
                "cpu": {"affinity": _without_played()},
                "played": {"enabled": bool(played), "definitions": ["cpu"], "affinity": needed},
            },
        },
    }


def _without_played() -> dict[str, Any]:
    none = {"matchExpressions": [{"key": LABEL, "operator": "DoesNotExist"}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [none]}}}


def upgrade(tools: Tools, wanted: dict[str, Any]) -> None:
    chart = project() / "charts" / SLURM
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(wanted, file)
        file.flush()
        files = ("--values", str(chart / "values-local.yaml"), "--values", file.name)
        tools("helm", "upgrade", SLURM, str(chart), "--namespace", NAMESPACE, *files)


@contextmanager
def crowded(kubectl: Kubectl) -> Iterator[Server]:
    """A server with everybody in it."""
    server = Server(kubectl, DIRECTORY, SUFFIX, certificate=Authority("CA of the bench").issue(DIRECTORY))
    users = [f"user{number:04}" for number in range(USERS)]
    server.secrets()
    server.start(
        *(person(name, suffix=SUFFIX, uid=20_000 + at, gid=30_000 + at % GROUPS) for at, name in enumerate(users)),
        *(group(f"team{at:02}", suffix=SUFFIX, gid=30_000 + at, members=users[at::GROUPS]) for at in range(GROUPS)),
    )
    server.ready()
    try:
        yield server
    finally:
        server.remove()


# Lookups


def lookups(kubectl: Kubectl, pod: str, user: str, *, rounds: int) -> list[float]:
    """Milliseconds of each `id`; the first ones are to get warm."""
    warm = 20
    said = kubectl(
        "exec", pod, "-c", names.SLURMD, "--", "bash", "-c", TIMED, "bash", user, str(rounds + warm), timeout=600
    )
    return [int(line) / 1000 for line in said.split()[warm:]]


def p99(found: list[float]) -> float:
    return sorted(found)[int(len(found) * 0.99)]


def figures_of_lookups(kubectl: Kubectl, server: Server, *, rounds: int) -> list[Figure]:
    nodes = kubectl(
        "get", "pods", "-l", f"{names.COMPONENT}={names.COMPUTE}", "-o", "jsonpath={.items[*].metadata.name}"
    )
    pod, user = nodes.split()[0], f"user{USERS - 1:04}"
    eventually(lambda: "uid=" in kubectl("exec", pod, "-c", names.SLURMD, "--", "sh", "-c", f"id {user} || true"))
    alone = lookups(kubectl, pod, "slurm", rounds=rounds)
    up = lookups(kubectl, pod, user, rounds=rounds)
    with server.down():
        eventually(lambda: state(kubectl) == people.UNREACHABLE)
        down = lookups(kubectl, pod, user, rounds=rounds)
    return [
        Figure(f"`id` of the last of {USERS} users on a node, directory up, p99", p99(up), "ms", goal=50),
        Figure("the same, directory down, p99", p99(down), "ms", goal=50),
        Figure("the same, directory up and down, median", median([*up, *down]), "ms"),
        Figure("`id` of a user of the image, p99", p99(alone), "ms"),
        Figure(
            "median of a known user, to that of a user of the image", median([*up, *down]) / median(alone), "×", goal=3
        ),
    ]


def state(kubectl: Kubectl) -> str:
    """Of the directory, as the agent has last reported it."""
    text = kubectl("get", "configmap", f"{SLURM}-{people.AGENT}", "-o", f"jsonpath={{.data.{people.REPORT}}}")
    found = json.decode(text, type=people.PeopleReport).directories if text else ()
    return found[0].state if found else ""


# Searches


def searches(server: Server, *, rest: float) -> float:
    """How many a minute, while nothing changes."""
    before, began = server.searches(), time.monotonic()
    time.sleep(rest)
    return (server.searches() - before) * 60 / (time.monotonic() - began)


async def with_played(kubectl: Kubectl, tools: Tools, server: Server, *, played: int, rest: float) -> float:
    settings = Settings(nodes=played, fleet=NAME, labels={LABEL: "true"}, binds=False, grace=GRACE)
    async with spawned(settings, kubeconfig=kubectl.kubeconfig):
        upgrade(tools, values(played=played))
        wanted = ("get", "pods", "-l", f"{names.COMPONENT}={names.COMPUTE}", "--field-selector", "status.phase=Running")
        await asyncio.to_thread(
            eventually, lambda: len(kubectl(*wanted, "-o", "name").split()) >= NODES + played, seconds=PATIENCE
        )
        found = await asyncio.to_thread(searches, server, rest=rest)
        upgrade(tools, values(played=0))
        kubectl("annotate", "nodeset", f"{SLURM}-played", f"{names.FORCE_DELETION}=true", "--overwrite")
        await asyncio.to_thread(
            eventually, lambda: kubectl("get", "nodeset", f"{SLURM}-played", "--ignore-not-found", "-o", "name") == ""
        )
    return found


def eventually(check: Callable[[], bool], *, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            raise SystemExit(f"not so within {seconds:.0f} s")
        time.sleep(1)


def main(*, rounds: int, played: int, rest: float) -> None:
    with installed(NAME, count=NODES) as (tools, _):
        kubectl = Kubectl(Path(tools.folder) / "kubectl", tools.kubeconfig, NAMESPACE)
        with crowded(kubectl) as server:
            with step(f"Read a directory with {USERS} users"):
                upgrade(tools, values(played=0))
                eventually(lambda: state(kubectl) == people.AVAILABLE)
            with step(f"Look up a user {rounds} times"):
                found = figures_of_lookups(kubectl, server, rounds=rounds)
                eventually(lambda: state(kubectl) == people.AVAILABLE)
            with step(f"Count searches with {NODES} nodes"):
                few = searches(server, rest=rest)
            with step(f"Count searches with {played} more"):
                many = asyncio.run(with_played(kubectl, tools, server, played=played, rest=rest))
    report(
        "users",
        [
            *found,
            Figure(f"LDAP searches a minute at rest, {NODES} nodes", few, "/min", goal=12),
            Figure(f"the same, {played} more nodes", many, "/min", goal=12),
        ],
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000, help="lookups of each kind")
    parser.add_argument("--played", type=int, default=300, help="nodes without a machine")
    parser.add_argument("--rest", type=float, default=120.0, help="seconds in which searches are counted")
    main(**vars(parser.parse_args()))
