"""People who log in: sshd and PAM of the slurm image, and the LDAP server of the image `directory`, in boxes."""

import base64
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import pytest
from tests.box import ADDRESS, Box, File, Plan, box, network, wait_for
from tests.versions import BOTH

from sunk.local.artifacts import images

OPENLDAP: Final = 64033
SUFFIX: Final = "dc=example,dc=com"
DN: Final = f"uid=alice,ou=people,{SUFFIX}"
PASSWORD: Final = "it's a $ecret"  # noqa: S105 - of nobody
ANOTHER: Final = "another"
LDIF: Final = f"""\
dn: ou=people,{SUFFIX}
objectClass: organizationalUnit
ou: people

dn: {DN}
objectClass: inetOrgPerson
objectClass: posixAccount
objectClass: ldapPublicKey
uid: alice
cn: Alice
sn: A
uidNumber: 5001
gidNumber: 5000
homeDirectory: /home/alice
userPassword: {PASSWORD}
sshPublicKey: ssh-ed25519 AAAA alice
"""
USERS: Final = {
    "passwd": "".join(
        f"{name}:{password}:{uid}:5000::/home/{name}:/bin/bash\n"
        for name, password, uid in (
            ("alice", "x", 5001),
            ("bob", "*", 5002),
            ("locked", "x", 5003),
            ("star", "*", 5004),
        )
    ),
    "group": "staff:*:5000:\nadmins:*:5010:alice\nsudo:*:5011:bob\n",
    "shadow": "alice:*:::::::\nlocked:*:1:::::1:\nstar:*:1:::::1:\n",
    "sudoers": "%admins ALL=(ALL:ALL) NOPASSWD: ALL\n",
    "options": "create_homes=yes\n",
}
TLS_PORT: Final = 1636
PORT: Final = 1389

Start = Callable[..., AbstractContextManager[Box]]


def certificates(folder: Path) -> dict[str, str]:
    """A CA, and a certificate of a server at ADDRESS."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    folder.mkdir()
    (folder / "names").write_text(f"subjectAltName=IP:{ADDRESS}\n")
    new = ("-newkey", "rsa:2048", "-nodes")
    openssl("req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.crt", "-days", "2", "-subj", "/CN=ca")
    openssl("req", *new, "-keyout", "tls.key", "-out", "tls.csr", "-subj", "/CN=ldap")
    signed = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names")
    openssl("x509", "-req", "-in", "tls.csr", "-out", "tls.crt", "-days", "2", *signed)
    return {name: (folder / name).read_text() for name in ("ca.crt", "tls.crt", "tls.key")}


class Login:
    """A login box."""

    def __init__(self, box: Box) -> None:
        self.box = box

    def ssh(self, user: str, command: str = "id --user --name", *, password: str | None = None) -> tuple[int, str]:
        """Log in from within, by the key or by a password; the exit code, and what was printed."""
        options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "NumberOfPasswordPrompts=1"]
        options += ["PreferredAuthentications=password"] if password is not None else ["BatchMode=yes"]
        words = ["ssh", "-i", "/etc/key", *(f"-o{each}" for each in options), f"{user}@127.0.0.1", command]
        ask = f"#!/bin/sh\nprintf '%s\\n' {shlex.quote(password or '')}\n"
        script = (
            f"printf %s {shlex.quote(ask)} > /tmp/ask; chmod 0755 /tmp/ask; export SSH_ASKPASS=/tmp/ask "
            f"SSH_ASKPASS_REQUIRE=force; setsid --wait {shlex.join(words)} < /dev/null 2>&1; echo $?"
        )
        *said, code = self.box.run("bash", "-c", script).splitlines()
        return int(code), "\n".join(said)

    def lets_in(self, user: str, *, password: str | None = None) -> bool:
        code, said = self.ssh(user, password=password)
        assert code in {0, 255}, said
        return code == 0 and said.splitlines()[-1] == user

    def write(self, path: str, text: str) -> None:
        (self.box.files / path).write_text(text)


@pytest.fixture(scope="module", params=BOTH)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def net() -> Iterator[int]:
    with network() as holder:
        yield holder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return certificates(tmp_path_factory.mktemp("certificates") / "made")


@pytest.fixture(scope="module")
def directory(version: str, net: int, made: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    files = {f"etc/sunk/tls/{name}": File(text) for name, text in made.items()}
    files |= {"etc/sunk/ldif/10.ldif": File(LDIF)}
    image, folder = images.root_file_system("directory", slurm=version), tmp_path_factory.mktemp("directory") / "box"
    plan = Plan(image=image, folder=folder, network=net, name="directory", user=OPENLDAP, files=files)
    with box(plan, "env", "ADMIN_PASSWORD=admin", "/serve") as running:
        wait_for(lambda: "slapd starting" in running.said(), what="slapd")
        yield running


@pytest.fixture(scope="module")
def login(version: str, net: int, made: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Login]:
    folder = tmp_path_factory.mktemp("login")
    subprocess.run(["ssh-keygen", "-qt", "ed25519", "-N", "", "-f", folder / "key"], check=True)
    subprocess.run(["ssh-keygen", "-qt", "ed25519", "-N", "", "-f", folder / "host"], check=True)
    public = (folder / "key.pub").read_text()
    names = f"alice\tmain\t{base64.b64encode(DN.encode()).decode()}\n"
    files = {f"etc/sunk/users/{name}": File(text) for name, text in USERS.items()}
    files |= {
        "etc/key": File((folder / "key").read_text(), mode=0o600),
        "etc/ssh/host-keys/ssh_host_ed25519_key": File((folder / "host").read_text(), mode=0o400),
        "etc/sunk/directories/main/tls/ca.crt": File(made["ca.crt"]),
        "etc/sunk/logins/keys-1": File(
            "".join(f"{user} {public}" for user in ("alice", "bob", "locked", "star", "root"))
        ),
        # Whatever a directory says: these are not its users.
        "etc/sunk/logins/names-0": File(names + names.replace("alice", "root", 1)),
        "etc/sunk/logins/passwords": File(f"main\ttls\tldaps://{ADDRESS}:{TLS_PORT}\n"),
    }
    image = images.root_file_system("slurm", slurm=version)
    plan = Plan(image=image, folder=folder / "box", network=net, name="login", files=files)
    # All that log in here have one address.
    with box(plan, "env", "SUNK_SHARED_ADDRESSES=yes", "/init", "sshd") as running:
        wait_for(lambda: "Server listening on" in running.said(), what="sshd")
        yield Login(running)


def test_host_keys_are_those_that_are_mounted(login: Login) -> None:
    assert "ssh_host_ed25519_key" in login.box.run("sshd", "-T")
    assert not list((login.box.files / "etc/ssh").glob("ssh_host_*"))


def test_a_key_of_a_directory_lets_in_and_makes_a_home(login: Login) -> None:
    code, said = login.ssh("bob", "pwd; stat --format=%a:%U ~; id --groups --name")
    assert code == 0, said
    assert said.splitlines()[-3:] == ["/home/bob", "700:bob", "staff sudo"]


def test_homes_are_not_made_where_that_is_not_wanted(login: Login) -> None:
    login.write("etc/sunk/users/options", "create_homes=no\n")
    try:
        login.box.run("rm", "-rf", "/home/bob")
        assert login.lets_in("bob")
        assert login.box.run("ls", "/home").split().count("bob") == 0
    finally:
        login.write("etc/sunk/users/options", USERS["options"])


@pytest.mark.parametrize("user", ["locked", "star"])
def test_a_locked_user_stays_out_whatever_passwd_says(login: Login, user: str) -> None:
    code, said = login.ssh(user)
    assert (code, "expired" in said) == (255, True)


def test_a_key_for_root_is_worth_nothing(login: Login) -> None:
    assert not login.lets_in("root")


def test_sudo_goes_by_the_groups_of_the_operator_and_not_by_the_name_sudo(login: Login) -> None:
    assert login.ssh("alice", "sudo --non-interactive id --user --name")[1].splitlines()[-1] == "root"
    code, said = login.ssh("bob", "sudo --non-interactive id")
    assert (code, "password is required" in said) == (1, True)


@pytest.mark.usefixtures("directory")
def test_the_password_of_the_directory_lets_in_and_no_other(login: Login) -> None:
    assert login.lets_in("alice", password=PASSWORD)
    for wrong in ("", "wrong", f"{PASSWORD}x", PASSWORD[:-1]):
        assert not login.lets_in("alice", password=wrong), wrong
    for other in ("bob", "root", "slurm", "stranger"):
        assert not login.lets_in(other, password=PASSWORD), other


@pytest.mark.usefixtures("directory")
def test_wrong_passwords_of_others_from_the_same_address_shut_out_nobody(login: Login) -> None:
    for _ in range(6):
        assert not login.lets_in("bob", password=ANOTHER)
    assert login.lets_in("alice", password=PASSWORD)


@pytest.mark.usefixtures("directory")
def test_starttls_will_do_and_plain_will_not(login: Login) -> None:
    before = (login.box.files / "etc/sunk/logins/passwords").read_text()
    try:
        login.write("etc/sunk/logins/passwords", f"main\tstarttls\tldap://{ADDRESS}:1,ldap://{ADDRESS}:{PORT}\n")
        assert login.lets_in("alice", password=PASSWORD)
        login.write("etc/sunk/logins/passwords", f"main\tplain\tldap://{ADDRESS}:{PORT}\n")
        assert not login.lets_in("alice", password=PASSWORD)
        assert "password: directory main: no address with TLS" in login.box.said()
    finally:
        login.write("etc/sunk/logins/passwords", before)


@pytest.mark.usefixtures("directory")
def test_a_server_with_another_ca_gets_no_password(login: Login, tmp_path: Path) -> None:
    file = "etc/sunk/directories/main/tls/ca.crt"
    before = (login.box.files / file).read_text()
    try:
        login.write(file, certificates(tmp_path / "other")["ca.crt"])
        assert not login.lets_in("alice", password=PASSWORD)
    finally:
        login.write(file, before)


def test_a_new_password_counts_at_once(login: Login, directory: Box) -> None:
    admin = ("-x", "-H", f"ldap://127.0.0.1:{PORT}", "-D", f"cn=admin,{SUFFIX}", "-w", "admin")
    directory.run("ldappasswd", *admin, "-s", ANOTHER, DN, user=OPENLDAP)
    try:
        assert login.lets_in("alice", password=ANOTHER)
        assert not login.lets_in("alice", password=PASSWORD)
    finally:
        directory.run("ldappasswd", *admin, "-s", PASSWORD, DN, user=OPENLDAP)


@pytest.mark.usefixtures("directory")
def test_the_password_is_nowhere_to_be_seen(login: Login, directory: Box) -> None:
    assert login.lets_in("alice", password=PASSWORD)
    assert PASSWORD not in login.box.said()
    assert PASSWORD not in directory.said()


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ((), "ADMIN_PASSWORD is not set"),
        (("ADMIN_PASSWORD=x", "SCHEMA=odd"), "SCHEMA is 'odd'. Use one of: rfc2307 rfc2307bis."),
        (("ADMIN_PASSWORD=x", "CLIENT_CERTIFICATES=demand"), "/etc/sunk/tls/tls.crt is missing"),
        (("ADMIN_PASSWORD=x", "SUFFIX=cn=odd"), "begins with neither dc= nor o="),
    ],
)
def test_a_directory_that_cannot_start_says_why(
    net: int, tmp_path: Path, variables: tuple[str, ...], words: str
) -> None:
    plan = Plan(image=images.root_file_system("directory"), folder=tmp_path / "box", network=net, user=OPENLDAP)
    with box(plan, "env", *variables, "/serve") as running:
        assert running.ended() == 2
        assert words in running.said()


def test_a_directory_may_have_groups_of_dns_and_demand_certificates(
    net: int, made: dict[str, str], tmp_path: Path
) -> None:
    groups = f"dn: cn=staff,{SUFFIX}\nobjectClass: groupOfNames\nobjectClass: posixGroup\ncn: staff\ngidNumber: 5000\nmember: {DN}\n"
    files = {f"etc/sunk/tls/{name}": File(text) for name, text in made.items()}
    files |= {"etc/sunk/ldif/10.ldif": File(LDIF), "etc/sunk/ldif/20.ldif": File(groups)}
    image = images.root_file_system("directory")
    plan = Plan(image=image, folder=tmp_path / "box", network=net, user=OPENLDAP, files=files)
    variables = ("ADMIN_PASSWORD=x", "SCHEMA=rfc2307bis", "CLIENT_CERTIFICATES=demand", "ANONYMOUS=no")
    ports = ("-h", f"ldaps://{ADDRESS}:2636/")
    with box(plan, "env", *variables, "/serve", *ports) as running:
        wait_for(lambda: "slapd starting" in running.said(), what="slapd")
        alone = "LDAPTLS_CACERT=/etc/sunk/tls/ca.crt"
        own = ("LDAPTLS_CERT=/etc/sunk/tls/tls.crt", "LDAPTLS_KEY=/etc/sunk/tls/tls.key")
        who = ("ldapwhoami", "-x", "-H", f"ldaps://{ADDRESS}:2636")
        with pytest.raises(AssertionError):
            running.run("env", alone, *who, user=OPENLDAP)
        assert running.run("env", alone, *own, *who, user=OPENLDAP) == "anonymous"
