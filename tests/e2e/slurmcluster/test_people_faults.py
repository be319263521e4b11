"""What fails about directories: who is known stays known, everything else goes on, and the value to blame is named.

It goes wrong at a third directory, which is in the values from the beginning: login Pods have its certificate, and would be
replaced whenever it came or went.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from tests.e2e.slurmcluster.directories import Server, group, person, reached_by_tls
from tests.e2e.slurmcluster.people import (
    AUTHORITY,
    KEYS,
    PASSWORDS,
    STATED,
    VALUES as PEOPLE_VALUES,
    all_well,
    asked_about,
    become_known,
    become_unknown,
    directories,
    everywhere,
    hurry,
    known,
    opened,
    reasons,
    served,
    settle,
    submit,
    told,
    upgrade,
)
from tests.e2e.slurmcluster.release import Release
from tests.e2e.slurmcluster.sides import LASTING, tell_over
from tests.e2e.slurmcluster.visitors import Entrance
from tests.helm import Helm
from tests.waiting import eventually

from sunk.local.certificates import PAST, Authority, Certificate

pytestmark = pytest.mark.full

KINDS = ("cpu", "cpu", "cpu")
THIRD: Final = "dc=third,dc=test"
PLACE: Final = "directoryService.directories[2]"
VALUES = PEOPLE_VALUES | directories(reached_by_tls("third", suffix=THIRD))


@pytest.fixture(scope="module", autouse=True)
def servers(operator: Helm) -> Iterator[dict[str, Server]]:
    third = Server(operator.kubectl, "third", THIRD, certificate=AUTHORITY.issue("third"), settings={"ANONYMOUS": "no"})
    third.secrets()
    third.start(
        person("tess", suffix=THIRD, uid=6001, gid=6000, keys=[KEYS.public]),
        group("thirds", suffix=THIRD, gid=6000),
    )
    third.ready()
    with served(operator.kubectl) as found:
        yield found | {third.name: third}
    third.remove()


@pytest.fixture(scope="module")
def door(slurm: Release, tmp_path_factory: pytest.TempPathFactory) -> Entrance:
    become_known(slurm, "tess")
    return opened(slurm, tmp_path_factory.mktemp("visitors"))


@pytest.fixture(autouse=True)
def afterwards_all_is_well(slurm: Release) -> Iterator[None]:
    yield
    slurm.cancel()
    upgrade(slurm)
    all_well(slurm)


@pytest.fixture
def third(servers: dict[str, Server]) -> Iterator[Server]:
    """The server of the third directory, to be spoilt: afterwards it is as it was. It has a user `tess`."""
    server = servers["third"]
    yield server
    server.secrets()
    server.present(server.certificate)
    server.restart()


def blamed(slurm: Release, words: str) -> None:
    """Wait until the condition and an Event name the third directory, and say this of it."""

    def so() -> bool:
        if PLACE in told(slurm) and re.search(words, told(slurm)):
            return True
        hurry(slurm)
        return False

    eventually(so, seconds=STATED)
    message = told(slurm).partition(": ")[2]
    eventually(lambda: message in slurm.warnings())


def goes_on(slurm: Release, door: Entrance) -> None:
    """People of the other directories and their jobs notice nothing, and the cluster counts as ready."""
    assert door.by_key("bob", KEYS)("cd /tmp && srun id -un") == "bob"
    assert door.by_password("lena", PASSWORDS["lena"])("id -u") == "4001"
    assert slurm.is_ready()


# Down


def test_who_is_known_logs_in_while_the_directory_is_down(
    slurm: Release, door: Entrance, servers: dict[str, Server]
) -> None:
    with servers["campus"].down():
        eventually(lambda: "campus" in told(slurm) and "Unreachable" in told(slurm), seconds=STATED)
        bob = door.by_key("bob", KEYS)
        assert bob("id -un; sudo -n id -un").split() == ["bob", "root"]
        assert door.by_password("bob", PASSWORDS["bob"]).is_refused()
        assert door.by_password("lena", PASSWORDS["lena"]).gets_in()
        assert "by key only" in reasons(asked_about(slurm, "bob")["login"])
        nobody = asked_about(slurm, "stranger")
        assert "directory campus is Unreachable" in reasons(nobody["login"])
        assert slurm.is_ready()
    all_well(slurm)
    eventually(lambda: door.by_password("bob", PASSWORDS["bob"]).gets_in())


def test_slurmctld_and_logins_that_start_while_the_directory_is_down_know_everybody(
    slurm: Release, door: Entrance, servers: dict[str, Server]
) -> None:
    with servers["campus"].down():
        eventually(lambda: "campus" in told(slurm), seconds=STATED)
        before = {part: set(slurm.pods(part)) for part in ("controller", "login", "directory")}
        slurm.kubectl("delete", "pods", "-l", "app.kubernetes.io/component in (controller, login, directory)")
        eventually(lambda: all(pods.isdisjoint(slurm.pods(part)) for part, pods in before.items()))
        settle(slurm)
        slurm.ready()
        for pod, container in everywhere(slurm):
            assert known(slurm, "bob", pod=pod, container=container).startswith("uid=3001(bob)")
        # The new agent has not read campus once, and keeps its users.
        hurry(slurm)
        assert door.by_key("bob", KEYS)("cd /tmp && srun id -un") == "bob"
        job = submit(slurm, "bob", "sleep 60")
        assert "bob" in slurm("squeue", "--noheader", "--format=%u", f"--job={job}")


def test_jobs_go_on_when_the_directory_goes_down_in_their_middle(slurm: Release, servers: dict[str, Server]) -> None:
    running, waiting = (submit(slurm, "bob", f"id -un; {LASTING}", "-N3", "--exclusive") for _ in range(2))
    slurm.runs(running)
    with servers["campus"].down():
        eventually(lambda: "campus" in told(slurm), seconds=STATED)
        tell_over(slurm, running)
        slurm.ends(running)
        slurm.runs(waiting)
        tell_over(slurm, waiting)
        slurm.ends(waiting)


# Certificates


def of_another_ca() -> Certificate:
    return Authority("Somebody else's").issue("third")


@pytest.mark.parametrize(
    ("certificate", "words"),
    [
        (AUTHORITY.issue("third", lasts=PAST), "expired"),
        (AUTHORITY.issue("elsewhere"), "host name|hostname"),
        (of_another_ca(), "CA"),
    ],
    ids=["expired", "for another host", "of another CA"],
)
def test_a_certificate_that_cannot_be_trusted_is_told_in_words(
    slurm: Release, door: Entrance, third: Server, certificate: Certificate, words: str
) -> None:
    third.present(certificate)
    third.restart()
    blamed(slurm, words)
    goes_on(slurm, door)
    assert door.by_key("tess", KEYS)("id -u") == "6001"


def test_a_client_certificate_that_has_expired_is_told(
    slurm: Release, door: Entrance, servers: dict[str, Server]
) -> None:
    labs = servers["labs"]
    labs.secrets(client=AUTHORITY.issue("slurm", lasts=PAST))
    try:
        eventually(lambda: "labs" in told(slurm) and "ldapsCert" in told(slurm), seconds=STATED)
        assert door.by_key("lena", KEYS)("id -u") == "4001"
        assert door.by_key("bob", KEYS).gets_in()
    finally:
        labs.secrets(client=AUTHORITY.issue("slurm"))


# What is not believed


def test_a_canary_that_is_not_found_keeps_the_users_that_were_there(
    slurm: Release, door: Entrance, third: Server
) -> None:
    upgrade(slurm, directories(reached_by_tls("third", suffix=THIRD, user={"canary": "tess"})))
    all_well(slurm)
    third.modify(f"dn: uid=tess,ou=people,{THIRD}\nchangetype: delete\n")
    blamed(slurm, "canary.*tess|tess.*canary")
    assert door.by_key("tess", KEYS)("id -u") == "6001"
    goes_on(slurm, door)


def test_a_directory_that_is_suddenly_empty_is_not_believed(slurm: Release, door: Entrance, third: Server) -> None:
    third.modify(f"dn: uid=tess,ou=people,{THIRD}\nchangetype: delete\n")
    eventually(lambda: "Suspect" in told(slurm), seconds=STATED)
    assert door.by_key("tess", KEYS).gets_in()
    upgrade(slurm, directories())
    become_unknown(slurm, "tess")


# Bad input


BAD: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "no such Secret": (
        reached_by_tls("third", suffix=THIRD, user={"existingSecret": "no-such-secret"}),
        "existingSecret.*no-such-secret",
    ),
    "a Secret without .conf": (
        reached_by_tls("third", suffix=THIRD, user={"existingSecret": "third-trust"}),
        r"existingSecret.*\.conf",
    ),
    "no such certificate": (reached_by_tls("third", suffix=THIRD, ldapsCert="no-such-cert"), "ldapsCert|CA"),
    "an option that is not known": (
        reached_by_tls("third", suffix=THIRD, additionalConfig="ldap_krb5_keytab = /etc/keytab"),
        "ldap_krb5_keytab",
    ),
    "TLS that nobody checks": (
        reached_by_tls("third", suffix=THIRD, additionalConfig="ldap_tls_reqcert = never"),
        "ldap_tls_reqcert",
    ),
    "a line that is no setting": (
        reached_by_tls("third", suffix=THIRD, additionalConfig="hello world"),
        "additionalConfig",
    ),
    "a search base that does not exist": (
        reached_by_tls("third", suffix=THIRD, user={"searchBase": "dc=nowhere"}),
        "searchBase|search_base",
    ),
    "a bind DN that does not exist": (
        reached_by_tls("third", suffix=THIRD, user={"bindDn": f"cn=nobody,{THIRD}"}),
        "bindDn|password|credentials",
    ),
    "no such host": (reached_by_tls("third", suffix=THIRD, ldapUri="ldaps://no-such-host:1636"), "ldapUri"),
    "no such port": (reached_by_tls("third", suffix=THIRD, ldapUri="ldaps://third:1"), "ldapUri"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_value_is_named_and_everything_else_goes_on(slurm: Release, door: Entrance, case: str) -> None:
    directory, words = BAD[case]
    job = submit(slurm, "bob", LASTING)
    slurm.runs(job)
    upgrade(slurm, directories(directory))
    blamed(slurm, words)
    goes_on(slurm, door)
    assert slurm.job(job) == "RUNNING"
    tell_over(slurm, job)
    slurm.ends(job)


@pytest.mark.parametrize(
    ("secret", "words"),
    [
        ({"bind": "wrong"}, "password|credentials|authtok"),
        ({"ca": "this is no certificate"}, r"ldapsCert.*ca\.crt|ca\.crt.*ldapsCert"),
    ],
    ids=["a wrong password", "a certificate that cannot be read"],
)
def test_a_secret_that_is_spoilt_is_named_and_read_again_once_it_is_mended(
    slurm: Release, door: Entrance, third: Server, secret: dict[str, Any], words: str
) -> None:
    third.secrets(**secret)
    hurry(slurm)
    blamed(slurm, words)
    assert "wrong" not in told(slurm).split()
    assert door.by_key("tess", KEYS)("id -u") == "6001"
    goes_on(slurm, door)
    third.secrets()
    hurry(slurm)
    all_well(slurm)


def test_a_snippet_that_is_refused_is_named(slurm: Release, door: Entrance, third: Server) -> None:
    third.secrets(bind="fine\nldap_sasl_mech = GSSAPI")
    hurry(slurm)
    blamed(slurm, "ldap_sasl_mech")
    goes_on(slurm, door)
