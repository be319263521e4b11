"""People of two directories: they log in with keys and passwords, and run jobs as who they are."""

import re
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from msgspec import json
from tests.conftest import Kubectl
from tests.e2e.slurmcluster.directories import PASSWORD, Server, dn_of, group, person, reached_by_tls
from tests.e2e.slurmcluster.people import (
    ADMINS,
    AUTHORITY,
    CAMPUS,
    KEYS,
    PASSWORDS,
    PEOPLE,
    STATED,
    VALUES as PEOPLE_VALUES,
    all_well,
    asked_about,
    become_known,
    become_unknown,
    directories,
    everywhere,
    known,
    opened,
    reasons,
    served,
    settle,
    submit,
    upgrade,
)
from tests.e2e.slurmcluster.release import Release
from tests.e2e.slurmcluster.sides import LASTING, inside, tell_over
from tests.e2e.slurmcluster.visitors import Entrance, host_keys, shown_keys
from tests.helm import Helm
from tests.leaks import is_in, texts
from tests.waiting import eventually

from sunk.model import names

KINDS = ("cpu", "cpu", "cpu")
VALUES = PEOPLE_VALUES


@pytest.fixture(scope="module", autouse=True)
def servers(operator: Helm) -> Iterator[dict[str, Server]]:
    with served(operator.kubectl) as found:
        yield found


@pytest.fixture(scope="module")
def door(slurm: Release, tmp_path_factory: pytest.TempPathFactory) -> Entrance:
    return opened(slurm, tmp_path_factory.mktemp("visitors"))


@pytest.fixture(autouse=True)
def afterwards_nothing_is_queued(slurm: Release) -> Iterator[None]:
    yield
    slurm.cancel()


def readable(kubectl: Kubectl) -> list[str]:
    """Everything of the cluster that a password must not be in; the servers have theirs in objects of their own."""
    ours = ("configmaps,pods,deployments,statefulsets", "-l", f"{names.CLUSTER}=slurm")
    answers = kubectl("get", *ours, "-o", "json"), kubectl("get", "slurmclusters,events", "-o", "json")
    return [text for answer in answers for text in texts(json.decode(answer))]


# Logging in


def test_people_of_directories_log_in_and_run_jobs_as_who_they_are(slurm: Release, door: Entrance) -> None:
    bob, carol, lena = (
        door.by_key("bob", KEYS),
        door.by_password("carol", PASSWORDS["carol"]),
        door.by_password("lena", PASSWORDS["lena"]),
    )
    assert bob("id") == "uid=3001(bob) gid=3000(people) groups=3000(people),3100(admins)"
    assert bob("pwd; sudo -n id -u").split() == ["/home/bob", "0"]
    assert carol("id -un; sudo -n true 2> /dev/null || echo no").split() == ["carol", "no"]
    assert lena("id -u; sudo -n true 2> /dev/null || echo no").split() == ["4001", "no"]
    eventually(lambda: "science" in slurm("sacctmgr", "-nP", "list", "associations", "user=bob", "format=account"))
    ran = bob("cd /tmp && srun -N2 --ntasks-per-node=1 sh -c 'id -u; echo $SLURM_JOB_ACCOUNT'").split()
    assert sorted(ran) == ["3001", "3001", "science", "science"]
    found = asked_about(slurm, "bob")
    assert (found["login"]["allowed"], found["job"]["allowed"]) == (True, True)
    assert found["person"]["sudo"] == ["admins"]


@pytest.mark.full
@pytest.mark.parametrize("password", ["", "wrong", PASSWORDS["carol"]])
def test_whoever_has_neither_key_nor_password_stays_out(door: Entrance, password: str) -> None:
    assert door.by_password("bob", password or "\n").is_refused()


@pytest.mark.full
@pytest.mark.parametrize("user", ["mallory", "root", "slurm", "nobody", "dave"])
def test_a_key_in_the_directory_makes_nobody_root_or_unlocked(slurm: Release, door: Entrance, user: str) -> None:
    assert not door.by_key(user, KEYS).gets_in()
    if user == "dave":
        assert known(slurm, "dave").startswith("uid=3004(dave)")
        assert "locked or has expired" in reasons(asked_about(slurm, "dave")["login"])
    if user == "mallory":
        assert "left out" in reasons(asked_about(slurm, "mallory")["login"])


@pytest.mark.full
def test_passwords_are_in_no_object_but_secrets_and_in_no_log(slurm: Release, door: Entrance) -> None:
    assert door.by_password("bob", PASSWORDS["bob"]).gets_in()
    told = readable(slurm.kubectl)
    for pod in ("slurm-login-0", "slurm-login-1"):
        told.append(slurm.kubectl("logs", pod, "-c", "sshd", "--tail=-1"))
    told.append(slurm.kubectl("logs", "deployment/slurm-directory", "--tail=-1"))
    wanted = PASSWORDS | {"the account": PASSWORD}
    assert [user for user, password in wanted.items() if any(is_in(password, text) for text in told)] == []


@pytest.mark.full
def test_of_two_users_with_one_name_the_first_directory_has_its_way(slurm: Release, door: Entrance) -> None:
    assert door.by_password("twin", PASSWORDS["twin"])("id -u") == "3003"
    assert door.by_password("twin", PASSWORDS["twin of labs"]).is_refused()
    for pod, container in everywhere(slurm):
        assert known(slurm, "twin", pod=pod, container=container).startswith("uid=3003(twin)")
    assert "directory labs has an entry of this name too" in reasons(asked_about(slurm, "twin")["login"])


@pytest.mark.full
def test_a_group_with_sudo_is_that_of_its_own_directory(slurm: Release, door: Entrance) -> None:
    """The other directory has a group admins too, with lena in it."""
    assert door.by_key("lena", KEYS)("id -Gn").split() == ["lab"]
    assert door.by_key("lena", KEYS).attempt("sudo -n true").returncode != 0
    assert slurm("getent", "group", "admins").split(":")[2] == str(ADMINS)


@pytest.mark.full
def test_a_new_password_counts_at_once_and_restarts_nothing(
    slurm: Release, door: Entrance, servers: dict[str, Server]
) -> None:
    before = slurm.pods("login")
    change = f"dn: {dn_of('carol', suffix=CAMPUS)}\nchangetype: modify\nreplace: userPassword\nuserPassword: {{}}\n"
    assert door.by_password("carol", PASSWORDS["carol"]).gets_in()
    servers["campus"].modify(change.format("a new one"))
    try:
        assert door.by_password("carol", "a new one").gets_in()
        assert door.by_password("carol", PASSWORDS["carol"]).is_refused()
    finally:
        servers["campus"].modify(change.format(PASSWORDS["carol"]))
    assert door.by_password("carol", PASSWORDS["carol"]).gets_in()
    assert slurm.pods("login") == before


@pytest.mark.full
def test_groups_sudo_and_keys_follow_within_the_stated_time(
    slurm: Release, door: Entrance, servers: dict[str, Server], record_property: Callable[[str, object], None]
) -> None:
    """Nobody hurries the kubelets here: this is the figure in the guide."""
    carol, keeper = door.by_password("carol", PASSWORDS["carol"]), door.by_key("carol", KEYS)
    modify = "dn: {}\nchangetype: modify\n{}: {}\n{}: {}\n"
    entry, admins = dn_of("carol", suffix=CAMPUS), f"cn=admins,ou=groups,{CAMPUS}"
    servers["campus"].modify(modify.format(entry, "add", "objectClass", "objectClass", "ldapPublicKey"))

    def change(word: str) -> None:
        for dn, attribute, value in ((admins, "memberUid", "carol"), (entry, "sshPublicKey", KEYS.public.strip())):
            servers["campus"].modify(modify.format(dn, word, attribute, attribute, value))

    def seen(*, wanted: bool) -> bool:
        nodes = all(
            ("admins" in known(slurm, "carol", pod=pod, container=container)) is wanted
            for pod, container in everywhere(slurm)
        )
        return nodes and (carol.attempt("sudo -n true").returncode == 0) is keeper.gets_in() is wanted

    for word, wanted in (("add", True), ("delete", False)):
        began = time.monotonic()
        change(word)
        eventually(partial(seen, wanted=wanted), seconds=STATED)
        record_property(f"seconds until seen: {word}", f"{time.monotonic() - began:.0f}")


@pytest.mark.full
def test_a_partition_for_a_group_takes_its_members_and_nobody_else(slurm: Release, door: Entrance) -> None:
    """Groups of directories count in slurmctld, too."""
    partitions = "PartitionName=all Nodes=ALL Default=YES\nPartitionName=staff Nodes=ALL AllowGroups=admins\n"
    slurm.install({"compute": {"partitions": partitions}})
    slurm.ready()
    run = "cd /tmp && srun -p staff id -un"
    assert door.by_key("bob", KEYS)(run) == "bob"
    refused = door.by_password("carol", PASSWORDS["carol"]).attempt(run)
    assert refused.returncode != 0
    assert "group not permitted" in refused.stderr.lower()
    slurm.install()
    slurm.ready()


@pytest.mark.full
def test_a_new_user_gets_a_home_and_an_account_and_goes_again(
    slurm: Release, door: Entrance, servers: dict[str, Server]
) -> None:
    server = servers["campus"]
    made = person("newbie", suffix=CAMPUS, uid=3050, gid=PEOPLE, keys=[KEYS.public])
    server.modify(made.replace("\nobjectClass:", "\nchangetype: add\nobjectClass:", 1))
    become_known(slurm, "newbie")
    newbie = door.by_key("newbie", KEYS)
    assert newbie("stat -c '%U %a' ~").split() == ["newbie", "700"]
    eventually(lambda: newbie.attempt("cd /tmp && srun id -u").stdout.strip() == "3050", seconds=90)
    server.modify(f"dn: {dn_of('newbie', suffix=CAMPUS)}\nchangetype: delete\n")
    become_unknown(slurm, "newbie")
    assert not newbie.gets_in()
    assert "have a user newbie" in reasons(asked_about(slurm, "newbie")["login"])


# Host keys and sessions


@pytest.mark.full
def test_host_keys_are_the_same_from_both_replicas_and_after_an_upgrade(slurm: Release, door: Entrance) -> None:
    wanted = {" ".join(line.split()[:2]) for line in host_keys(slurm)}
    assert len(wanted) == 2

    def shown() -> list[set[str]]:
        services = ("slurm-login", "slurm-login-0-ssh", "slurm-login-1-ssh")
        at = "jsonpath={.status.loadBalancer.ingress[0].ip}"
        return [shown_keys(slurm.kubectl("get", "service", name, "-o", at)) for name in services]

    eventually(lambda: shown() == [wanted] * 3)
    before = slurm.pods("login")
    upgrade(slurm, {"login": {"env": [{"name": "TEST_UPGRADE", "value": str(time.time_ns())}]}})
    eventually(lambda: len(slurm.pods("login")) == 2 and not set(slurm.pods("login")) & set(before), seconds=240)
    slurm.ready()
    eventually(lambda: shown() == [wanted] * 3)
    assert door.by_key("bob", KEYS)("id -un") == "bob"
    upgrade(slurm)
    slurm.ready()


@pytest.mark.full
def test_a_node_finds_a_login_by_its_name_and_not_the_service_in_front_of_it(slurm: Release) -> None:
    address = slurm.kubectl("get", "pod", "slurm-login-1", "-o", "jsonpath={.status.podIP}")
    assert inside(slurm, slurm.idle()[0], "getent", "hosts", "slurm-login-1").split()[0] == address


@pytest.mark.full
def test_a_session_outlives_the_end_of_its_pod_while_new_logins_go_elsewhere(slurm: Release, door: Entrance) -> None:
    session = door.by_key("bob", KEYS).begin("hostname; sleep 25; echo still here")
    assert session.stdout is not None
    pod = session.stdout.readline().strip()
    slurm.kubectl("delete", "pod", pod, "--wait=false")
    time.sleep(5)
    others = {door.by_key("bob", KEYS)("hostname") for _ in range(3)}
    assert pod not in others
    assert "still here" in session.communicate(timeout=90)[0]
    assert session.returncode == 0
    settle(slurm)
    slurm.ready()


# Compute nodes


@pytest.mark.full
def test_ssh_to_a_node_needs_a_job_there_and_ends_with_it(slurm: Release, door: Entrance) -> None:
    bob, lena = door.by_key("bob", KEYS), door.by_key("lena", KEYS)
    node, other = slurm.idle()[:2]
    to = "ssh -o BatchMode=yes -o ConnectTimeout=10 {} {}"
    assert bob.attempt(to.format(node, "true")).returncode != 0

    job = submit(slurm, "bob", LASTING, "-w", node)
    slurm.runs(job)
    eventually(lambda: bob.attempt(to.format(node, "true")).returncode == 0)
    assert bob(to.format(node, "'id -un; hostname'")).split() == ["bob", node]
    assert bob.attempt(to.format(other, "true")).returncode != 0
    assert lena.attempt(to.format(node, "true")).returncode != 0
    assert door.by_password("bob", PASSWORDS["bob"]).attempt(to.format(node, "true")).returncode != 0

    stays = bob.begin(to.format(node, "'echo in; sleep 600'"))
    assert stays.stdout is not None
    assert stays.stdout.readline().strip() == "in"
    tell_over(slurm, job)
    slurm.ends(job)
    stays.communicate(timeout=60)
    left = ("sh", "-c", "ps -u bob -o args= || true")
    eventually(lambda: "sleep 600" not in slurm.kubectl("exec", node, "-c", "slurmd", "--", *left))
    assert bob.attempt(to.format(node, "true")).returncode != 0


# Who is known where


@pytest.mark.full
def test_a_uid_that_only_the_login_knows_is_refused_and_told(slurm: Release, door: Entrance) -> None:
    line = "ghost:x:5999:5999::/tmp:/bin/bash"
    slurm("sh", "-c", f"echo {line} >> /etc/passwd")
    try:
        done = slurm("sh", "-c", "setpriv --reuid=5999 --regid=5999 --clear-groups srun -D /tmp true 2>&1; true")
        assert re.search("[Ii]nvalid|error", done)
        found = asked_about(slurm, "ghost")
        assert (found["login"]["allowed"], found["job"]["allowed"]) == (False, False)
        views = {one["pod"]: one["known"] for one in found["pods"]}
        assert views["slurm-login-0"] is True
        assert [one["known"] for one in found["pods"] if one["component"] == "controller"] == [False]
        assert door.by_key("bob", KEYS)("cd /tmp && srun id -un") == "bob"
    finally:
        slurm("sed", "-i", "/^ghost:/d", "/etc/passwd")


@pytest.mark.full
def test_a_thousand_users_in_fifty_groups_are_known_on_three_nodes(slurm: Release, operator: Helm) -> None:
    crowd = "dc=crowd,dc=test"
    server = Server(operator.kubectl, "crowd", crowd, certificate=AUTHORITY.issue("crowd"))
    users = [f"crowd{number:03}" for number in range(1000)]
    server.secrets()
    server.start(
        *(person(name, suffix=crowd, uid=20_000 + at, gid=30_000 + at % 50) for at, name in enumerate(users)),
        *(
            group(f"team{at:02}", suffix=crowd, gid=30_000 + at, members=users[at::50] + users[(at + 1) % 50 :: 50])
            for at in range(50)
        ),
    )
    server.ready()
    try:
        upgrade(slurm, directories(reached_by_tls("crowd", suffix=crowd)))
        become_known(slurm, users[-1])
        count = "for each in $(seq -w 0 999); do id -Gn crowd$each | wc -w; done | sort | uniq -c"
        for pod, container in everywhere(slurm):
            said = slurm.kubectl("exec", pod, "-c", container, "--", "sh", "-c", count).split()
            assert said == ["1000", "2"], pod
        assert asked_about(slurm, "crowd500", "--all-pods")["login"]["allowed"] is True
    finally:
        upgrade(slurm)
        server.remove()
    become_unknown(slurm, users[0])
    all_well(slurm)
