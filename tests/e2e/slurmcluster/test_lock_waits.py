"""Jobs wait long for other work to leave their Nodes: for how long, and that they outlive all that happens meanwhile.

The operator unlocks a Node the moment that it is idle. All that is not a compute node runs on the first Node, so that the
others can be hurt.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import Struct, json
from tests.e2e.slurmcluster import kubelet
from tests.e2e.slurmcluster.conftest import OPERATOR
from tests.e2e.slurmcluster.processes import BACK, container_of, kill, kill_and_await, lease, pod_of, restart_api_server
from tests.e2e.slurmcluster.release import FIRST, ON_FIRST, Release, on
from tests.e2e.slurmcluster.sides import (
    BEGINS,
    LASTING,
    REBOOT,
    STRICTLY,
    begins,
    begun,
    end,
    fate,
    inside,
    node_of,
    reasons,
    reboot_asked,
    rebooting,
    uid_of,
)
from tests.e2e.slurmcluster.tenants import (
    LOCKED,
    LOCKED_STRICT,
    PENDING,
    STAYS,
    UNLOCKED,
    Tenants,
    lives_on,
    lock_of,
    locks,
    waits,
)
from tests.waiting import eventually

from sunk.local.kubernetes.cluster import LocalCluster
from sunk.model import names
from sunk.model.contract import clusterobjects, hooks
from sunk.operator.slurmcluster.daemons.syncer import TLS_VOLUME

pytestmark = pytest.mark.full

KINDS = ("cpu", "cpu", "cpu")
PROLOGS = 20
VALUES = {
    "accounting": {"enabled": False},
    "nodeSelector": ON_FIRST,
    # Nothing here times out, on however busy a machine.
    "syncer": {"hooksAPI": {"timeout": 240}, "nodePermissions": {"enabled": True}},
    # More CPUs than there are, so that many jobs fit.
    "compute": {"nodes": {"cpu": {"affinity": on("cpu"), "resources": {"limits": {"cpu": "8", "memory": "1Gi"}}}}},
}
OPERATOR_VALUES = {"lockLinger": "0", "nodePermissions[0]": "{namespace}/slurm"}
SYNCER = "slurm-syncer"
"""Deployment and Lease."""


@pytest.fixture(autouse=True)
def afterwards_all_are_idle(slurm: Release) -> Iterator[None]:
    yield
    slurm.cancel()
    eventually(lambda: len(slurm.idle()) == len(KINDS))
    eventually(lambda: set(locks(slurm.kubectl).values()) == {UNLOCKED})


# For how long


def test_a_pod_that_takes_its_time_delays_the_job_by_that(
    slurm: Release, tenants: Tenants, record_property: Callable[[str, object], None]
) -> None:
    name = slurm.idle()[0]
    node = node_of(slurm, name)
    tenants.run(on=node, on_term=STAYS, grace=20)
    stays = lives_on(tenants, node)[node]
    asked = time.time()
    started = float(slurm("srun", "-w", name, "date", "+%s.%N"))
    assert started - asked > 20
    last = tenants.last_alive(stays)
    assert last < started
    record_property("seconds from the end of the Pod to the job", f"{started - last:.1f}")


def test_a_placeholder_waits_for_objects_and_other_jobs_for_containers_only(slurm: Release, tenants: Tenants) -> None:
    name = slurm.idle()[-1]
    node = node_of(slurm, name)
    tenants.place("kept", on=node, held=True)
    kept = lives_on(tenants, node)[node]
    job = slurm.submit(BEGINS, "-n1", "-w", name)
    slurm.ends(job)
    assert tenants.last_alive(kept) < min(begun(slurm, name, job))
    assert tenants.exists("kept")
    eventually(lambda: lock_of(slurm.kubectl, node) == UNLOCKED)

    strict = slurm.submit(f"{BEGINS}; {LASTING}", "-n1", "-w", name, STRICTLY)
    waits(slurm.kubectl, node)
    time.sleep(3)
    assert lock_of(slurm.kubectl, node) == PENDING
    assert begun(slurm, name, strict) == []
    tenants.release("kept")
    eventually(lambda: lock_of(slurm.kubectl, node) == LOCKED_STRICT)
    begins(slurm, name, strict)
    # What is good enough for it is good enough for anybody, and stays so.
    slurm.ends(slurm.submit("true", "-n1", "-w", name))
    assert lock_of(slurm.kubectl, node) == LOCKED_STRICT
    end(slurm, name, strict)
    eventually(lambda: lock_of(slurm.kubectl, node) == UNLOCKED)


# Twenty prologs that wait


class Waiting(Struct, frozen=True):
    """Jobs of one array on all nodes, and on each Node a Pod that stays until it is told to leave."""

    slurm: Release
    tenants: Tenants
    array: str
    stay: dict[str, str]
    """The uid of the Pod on each Node."""
    compute: dict[str, str]
    """The compute node on each Node."""

    def all_wait(self) -> bool:
        states = self.slurm.job(self.array).split()
        return (
            len(states) == PROLOGS
            and set(states) <= {"RUNNING", "CONFIGURING"}
            and set(locks(self.slurm.kubectl).values()) == {PENDING}
        )

    def check(self) -> None:
        """See that they wait as before, and that nobody took them for failed."""
        eventually(self.all_wait)
        assert reasons(self.slurm) == {}

    def let_go(self) -> None:
        """Have the Pods leave, and see that each job has run once, and not before they were gone."""
        assert self.tenants.running() == {}
        eventually(lambda: {life.uid for life in self.tenants.alive()} == set(self.stay.values()))
        self.tenants.leave(*self.stay.values())
        self.slurm.ends(self.array)
        assert set(self.slurm.job(self.array, "Restarts").split()) == {"0"}
        moments = {node: begun(self.slurm, name, self.array) for node, name in self.compute.items()}
        assert sum(map(len, moments.values())) == PROLOGS
        for node, uid in self.stay.items():
            assert self.tenants.last_alive(uid) < min(moments[node])
        assert reasons(self.slurm) == {}


def hold(slurm: Release, tenants: Tenants) -> Waiting:
    tenants.run(replicas=len(KINDS), on_term=STAYS, grace=3600)
    compute = {node_of(slurm, name): name for name in slurm.idle()}
    stay = lives_on(tenants, *compute)
    array = slurm.submit(BEGINS, f"--array=1-{PROLOGS}", "-n1")
    waiting = Waiting(slurm, tenants, array, stay, compute)
    waiting.check()
    return waiting


def test_jobs_that_wait_outlive_the_syncer_the_api_server_and_the_operator(
    slurm: Release, tenants: Tenants, cluster: LocalCluster
) -> None:
    waiting = hold(slurm, tenants)
    kill_and_await(slurm.kubectl, cluster, leader_of(slurm), "syncer")
    waiting.check()
    restart_api_server(slurm.kubectl, cluster)
    waiting.check()
    # It finds the locks pending, and nobody in the way any more.
    holder, _ = lease(slurm.kubectl, OPERATOR)
    pod = pod_of(slurm.kubectl, holder)
    operator = container_of(pod, "operator")
    assert operator is not None
    assert kill(cluster, pod, operator) == ""
    waiting.let_go()


@contextmanager
def two_syncers(slurm: Release) -> Iterator[None]:
    scale(slurm, 2)
    try:
        yield
    finally:
        scale(slurm, 1)


def scale(slurm: Release, replicas: int) -> None:
    patch = f'{{"spec": {{"syncer": {{"replicas": {replicas}}}}}}}'
    slurm.kubectl("patch", "slurmcluster", slurm.name, "--type=merge", "-p", patch)
    path = "jsonpath={.spec.replicas}/{.status.replicas}/{.status.readyReplicas}"
    wanted = f"{replicas}/{replicas}/{replicas}"
    eventually(lambda: slurm.kubectl("get", "deployment", SYNCER, "-o", path) == wanted, seconds=BACK)
    # Its Deployment no longer counts one that was told to go.
    eventually(lambda: len(syncers(slurm)) == replicas)


def syncers(slurm: Release) -> set[str]:
    chosen = f"{names.CLUSTER}={slurm.name},{names.COMPONENT}=syncer"
    return {*slurm.kubectl("get", "pods", "-l", chosen, "-o", "jsonpath={.items[*].metadata.name}").split()}


def leader_of(slurm: Release) -> str:
    """The syncer that leads. One that is gone may be written down until another one is."""
    eventually(lambda: lease(slurm.kubectl, SYNCER)[0] in syncers(slurm), seconds=BACK)
    return lease(slurm.kubectl, SYNCER)[0]


def test_of_two_syncers_either_may_die_while_jobs_wait(slurm: Release, tenants: Tenants, cluster: LocalCluster) -> None:
    with two_syncers(slurm):
        waiting = hold(slurm, tenants)
        leader = leader_of(slurm)
        (standby,) = syncers(slurm) - {leader}
        kill_and_await(slurm.kubectl, cluster, standby, "syncer")
        assert lease(slurm.kubectl, SYNCER)[0] == leader
        waiting.check()

        slurm.kubectl("delete", "pod", leader, "--force", "--grace-period=0")
        eventually(lambda: lease(slurm.kubectl, SYNCER)[0] not in {"", leader}, seconds=BACK)
        waiting.check()
        waiting.let_go()


# The certificate


def certificates(slurm: Release) -> dict[str, dict[str, str]]:
    """The annotations of what is written down about each certificate of the hook API, by name."""
    found = json.decode(slurm.kubectl("get", "configmaps", "-l", f"{names.CLUSTER}={slurm.name}", "-o", "json"))
    all_ = {one["metadata"]["name"]: one["metadata"].get("annotations", {}) for one in found["items"]}
    return {name: notes for name, notes in all_.items() if names.CERTIFICATE_EXPIRES in notes}


def note(slurm: Release, certificate: str, key: str, moment: datetime) -> None:
    """Write another date, and have the operator look."""
    slurm.kubectl("annotate", "configmap", certificate, f"{key}={moment.isoformat()}", "--overwrite")
    slurm.kubectl("annotate", "slurmcluster", slurm.name, f"test.sunk/look={time.time_ns()}", "--overwrite")


def in_use(slurm: Release) -> str:
    """The certificate that syncers serve with."""
    path = f'jsonpath={{.spec.template.spec.volumes[?(@.name=="{TLS_VOLUME}")].secret.secretName}}'
    return slurm.kubectl("get", "deployment", SYNCER, "-o", path)


def brought(slurm: Release, compute: list[str], number: int) -> bool:
    """Whether every compute Pod believes so many CAs. A Pod that changes is looked after by its kubelet at once."""
    chosen = f"{names.CLUSTER}={slurm.name},{names.COMPONENT}=compute"
    slurm.kubectl("annotate", "pods", "-l", chosen, f"test.sunk/look={time.time_ns()}", "--overwrite")
    count = ("grep", "--count", "BEGIN CERTIFICATE", f"{hooks.FOLDER}/{hooks.CA}")
    return [inside(slurm, name, *count) for name in compute] == [str(number)] * len(compute)


def test_the_certificate_is_renewed_while_jobs_wait(slurm: Release, tenants: Tenants) -> None:
    compute = slurm.idle()
    waiting = hold(slurm, tenants)
    before, (first,) = syncers(slurm), certificates(slurm)
    assert in_use(slurm) == first
    note(slurm, first, names.CERTIFICATE_EXPIRES, datetime.now(UTC) + timedelta(days=20))
    eventually(lambda: len(certificates(slurm)) == 2)
    (second,) = certificates(slurm).keys() - {first}
    eventually(lambda: names.CERTIFICATE_PUBLISHED in certificates(slurm)[second])
    assert in_use(slurm) == first
    eventually(lambda: brought(slurm, compute, 2), seconds=180)
    waiting.check()

    # As if it had been on its way for long enough.
    note(slurm, second, names.CERTIFICATE_PUBLISHED, datetime.now(UTC) - timedelta(hours=1))
    eventually(lambda: in_use(slurm) == second)
    slurm.kubectl("rollout", "status", f"deployment/{SYNCER}", "--timeout=110s")
    eventually(lambda: not before & syncers(slurm))
    waiting.check()
    waiting.let_go()
    # Their successors are back by now, and would stay as long.
    tenants.remove()
    assert slurm("srun", "-N3", "echo", "after").split() == ["after"] * 3


# The Node


def test_a_node_that_registers_again_under_a_job_is_locked_again(slurm: Release, cluster: LocalCluster) -> None:
    name, node = next((name, node) for name in slurm.idle() if (node := node_of(slurm, name)) != FIRST)
    job = slurm.submit(f"{BEGINS}; {LASTING}", "-w", name)
    begins(slurm, name, job)
    assert lock_of(slurm.kubectl, node) == LOCKED
    slurm.kubectl("delete", "node", node)
    kubelet.register(slurm.kubectl, cluster, node, kind="cpu")
    eventually(lambda: lock_of(slurm.kubectl, node) == LOCKED, seconds=180)
    assert fate(slurm, job) == ("RUNNING", "0")
    end(slurm, name, job)
    eventually(lambda: lock_of(slurm.kubectl, node) == UNLOCKED)
    slurm.ends(slurm.submit("true", "-w", name))


def test_a_reboot_by_slurm_is_asked_of_the_node(slurm: Release) -> None:
    name = slurm.idle()[-1]
    node = node_of(slurm, name)
    try:
        with rebooting(slurm, name):
            eventually(lambda: reboot_asked(slurm, node) == "production-powerreset")
    finally:
        gone = json.encode({"status": {"conditions": [{"$patch": "delete", "type": REBOOT}]}}).decode()
        slurm.kubectl("patch", "node", node, "--subresource=status", "--type=strategic", "-p", gone)


# Who may call


def token(slurm: Release, pod: str = "", *, audience: str = "") -> str:
    """As the kubelet makes one for a Pod; without a Pod, one that its account could have made for itself."""
    made: tuple[str, ...] = ("create", "token", "default")
    made += (f"--audience={audience or hooks.audience(slurm.kubectl.namespace, slurm.name)}",)
    if pod:
        made += ("--bound-object-kind=Pod", f"--bound-object-name={pod}", f"--bound-object-uid={uid_of(slurm, pod)}")
    return slurm.kubectl(*made).strip()


def call(slurm: Release, name: str, hook: str, secret: str, *, within: tuple[str, ...] = ()) -> str:
    """The status of the answer to somebody who logged in, or from `within` a job of a user."""
    server = hooks.server_name(slurm.kubectl.namespace, slurm.name)
    sent: tuple[str, ...] = ("--header", f"Authorization: Bearer {secret}") if secret else ()
    # Whatever else it might answer, it must not be because of the body.
    sent += ("--data", '{"job": 1}') if hook != "hello" else ()
    quiet = ("--silent", "--insecure", "--max-time", "60", "--output", "/dev/null", "--write-out", "%{http_code}")
    url = f"https://{server}:{clusterobjects.HOOKS_PORT}/v1/nodes/{name}/{hook}"
    return slurm(*within, "curl", *quiet, *sent, url).strip()


def test_only_a_compute_pod_itself_may_speak_for_its_node(slurm: Release) -> None:
    name, other = slurm.idle()[:2]
    own = token(slurm, name)
    url = f"https://{hooks.server_name(slurm.kubectl.namespace, slurm.name)}:{clusterobjects.HOOKS_PORT}/"
    connect = f"curl --silent --insecure --max-time 60 --output /dev/null {url} && echo there || true"
    eventually(lambda: slurm("sh", "-c", connect) == "there\n")  # proxies hear of a new syncer in their own time
    assert call(slurm, name, "hello", own) == "200"
    assert call(slurm, other, "hello", own) == "403"

    refused = {
        "none": ("", "401"),
        "something else": ("nonsense", "401"),
        "one for another cluster": (token(slurm, name, audience=hooks.audience("elsewhere", "slurm")), "401"),
        "one of an account and no Pod": (token(slurm), "401"),
        "one of another compute Pod": (token(slurm, other), "403"),
        "one of a login Pod": (token(slurm, f"{slurm.name}-login-0"), "403"),
    }
    for hook in ("pre-hook", "reboot", "hello"):
        found = {what: call(slurm, name, hook, secret) for what, (secret, _) in refused.items()}
        assert found == {what: status for what, (_, status) in refused.items()}, hook

    assert call(slurm, name, "pre-hook", "", within=("srun", "-w", name)) == "401"
    reads = f"id -un; cat {hooks.FOLDER}/{hooks.TOKEN} 2>&1 || true"
    user, said = slurm("srun", "-w", name, "sh", "-c", reads).splitlines()
    assert user == "alice"
    assert said.endswith("Permission denied")
    assert locks(slurm.kubectl)[node_of(slurm, other)] == UNLOCKED
