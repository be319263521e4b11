"""What pam_exec is told about a password. A stand-in takes the place of ldapwhoami: how it is called is the point here."""

import base64
import os
import subprocess
from pathlib import Path

import pytest

from sunk.local import paths

SCRIPT = paths.project() / "images/slurm/password"
DN = "uid=alice,ou=people,dc=example,dc=com"
ASKED = """#!/bin/bash
folder=$(dirname "$0")
cat /dev/stdin > "$folder/got"
printf '%s\\0' "$@" > "$folder/words"
cat /proc/$$/environ > "$folder/variables"
for word in "$@"; do [[ $word != ldap*://* ]] || echo "$word" >> "$folder/asked"; done
source "$folder/answer"
"""
RIGHT = f'echo "dn:{DN}"; exit 0'


def encoded(dn: str) -> str:
    return base64.b64encode(dn.encode()).decode()


class Login:
    """A login Pod with one directory, as far as the script looks at it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.logins = root / "etc/sunk/logins"
        self.programs = root / "usr/bin"
        for folder in (self.logins, self.programs, root / "proc/1/fd"):
            folder.mkdir(parents=True)
        (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/bash\nslurm:x:64030:64030::/:/bin/false\n")
        (self.programs / "ldapwhoami").write_text(ASKED)
        (self.programs / "ldapwhoami").chmod(0o755)
        (self.logins / "names-0").write_text("")
        self.knows("alice", DN)
        self.reaches("main\ttls\tldaps://ldap.example.com")
        self.answers(RIGHT)

    def knows(self, user: str, dn: str, directory: str = "main") -> None:
        with (self.logins / "names-0").open("a") as file:
            file.write(f"{user}\t{directory}\t{encoded(dn)}\n")

    def reaches(self, *lines: str) -> None:
        (self.logins / "passwords").write_text("".join(f"{line}\n" for line in lines))

    def answers(self, script: str) -> None:
        (self.programs / "answer").write_text(script)

    def lets_in(
        self,
        user: str = "alice",
        password: bytes = b"secret",
        *,
        variables: dict[str, str] | None = None,
        seconds: int = 60,
    ) -> bool:
        env = {"PAM_USER": user, **(variables or {})}
        words = [str(SCRIPT), str(self.root), str(seconds)]
        done = subprocess.run(words, input=password, env=env, capture_output=True, check=False)
        assert done.returncode in {0, 1}, done.stderr
        assert (done.stdout, done.stderr) == (b"", b"")
        return done.returncode == 0

    def _file(self, name: str) -> bytes:
        return (self.programs / name).read_bytes() if (self.programs / name).exists() else b""

    @property
    def words(self) -> list[str]:
        return self._file("words").decode().split("\0")[:-1]

    @property
    def got(self) -> bytes:
        return self._file("got")

    @property
    def variables(self) -> dict[str, str]:
        pairs = (each.partition("=") for each in self._file("variables").decode().split("\0") if each)
        return {name: value for name, _, value in pairs}

    @property
    def asked(self) -> list[str]:
        return self._file("asked").decode().split()

    @property
    def log(self) -> str:
        file = self.root / "proc/1/fd/2"
        return file.read_text() if file.exists() else ""


@pytest.fixture
def login(tmp_path: Path) -> Login:
    return Login(tmp_path)


def test_the_directory_of_the_user_decides(login: Login) -> None:
    assert login.lets_in()
    assert login.words[login.words.index("-D") + 1] == DN
    assert login.asked == ["ldaps://ldap.example.com"]
    login.answers("exit 49")
    assert not login.lets_in()


def test_a_certificate_is_demanded_and_that_of_the_directory_is_used(login: Login) -> None:
    assert login.lets_in()
    assert login.variables["LDAPTLS_REQCERT"] == "demand"
    assert login.variables["LDAPTLS_CACERT"] == f"{login.root}/etc/ssl/certs/ca-certificates.crt"
    assert "LDAPTLS_CERT" not in login.variables
    folder = login.root / "etc/sunk/directories/main/tls"
    folder.mkdir(parents=True)
    for name in ("ca.crt", "tls.crt", "tls.key"):
        (folder / name).touch()
    assert login.lets_in()
    found = {login.variables[name] for name in ("LDAPTLS_CACERT", "LDAPTLS_CERT", "LDAPTLS_KEY")}
    assert found == {f"{folder}/{name}" for name in ("ca.crt", "tls.crt", "tls.key")}


@pytest.mark.parametrize(
    "password",
    [b"secret", b"-w", b"--", b"$(id)`id`\\", b" a  b ", b"line\nbreak\n", b"\n", b"\xff\xfe", b"*?[", b"x" * 5000],
    ids=repr,
)
def test_a_password_arrives_as_it_was_typed_and_stands_nowhere_else(login: Login, password: bytes) -> None:
    assert login.lets_in(password=password)
    assert login.got == password
    text = password.decode(errors="replace")
    assert text not in login.words
    assert text not in login.variables.values()
    assert login.log == ""


def test_an_exported_variable_of_the_name_does_not_carry_the_password_away(login: Login) -> None:
    given = dict.fromkeys(("password", "dn", "output", "entry"), "x")
    assert login.lets_in(password=b"very-secret", variables=given)
    assert not [value for value in login.variables.values() if "very-secret" in value]


def test_nothing_of_the_environment_counts_but_the_name(login: Login, tmp_path: Path) -> None:
    login.answers("exit 49")
    evil = tmp_path / "evil"
    evil.write_text("exit 0\n")
    given = {
        "BASH_ENV": str(evil),
        "ENV": str(evil),
        "BASH_FUNC_awk%%": "() { exit 0; }",
        "LDAPTLS_REQCERT": "never",
        "LDAPRC": str(evil),
        "PATH": str(tmp_path),
        "SECONDS_EACH": "0",
    }
    assert not login.lets_in(variables=given)
    assert login.variables["LDAPTLS_REQCERT"] == "demand"
    assert "LDAPRC" not in login.variables


def test_an_ldaprc_in_the_working_directory_is_not_found(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    (login.programs / "ldapwhoami").write_text(f"#!/bin/bash\npwd > {login.programs}/where\nexit 0\n")
    monkeypatch.chdir(login.root)
    assert login.lets_in()
    assert (login.programs / "where").read_text() == "/\n"


@pytest.mark.parametrize("password", [b"", b"\0", b"secret\0", b"secret\0more"], ids=repr)
def test_a_password_that_is_none_is_not_even_tried(login: Login, password: bytes) -> None:
    assert not login.lets_in(password=password)
    assert login.asked == []


@pytest.mark.parametrize(
    "user", ["", "root", "slurm", "bob", "alic", "alicee", "al.ce", "Alice", "../alice", "-alice", "a" * 33, "*", ".*"]
)
def test_who_is_not_a_user_of_a_directory_gets_no_password(login: Login, user: str) -> None:
    for name in ("root", "slurm"):
        login.knows(name, DN)
    assert not login.lets_in(user)
    assert login.asked == []


@pytest.mark.parametrize("user", ["alice\n", "alice\troot", "alice x", "alice'", "alice$(id)"])
def test_odd_characters_in_a_name_match_nobody(login: Login, user: str) -> None:
    assert not login.lets_in(user)
    assert login.asked == []


def test_names_are_compared_as_text_and_not_as_numbers(login: Login) -> None:
    login.knows("_1e1", DN)
    assert not login.lets_in("_10")
    (login.root / "etc/passwd").write_text("")
    assert login.lets_in()


def test_without_the_users_of_the_image_nobody_gets_in(login: Login) -> None:
    (login.root / "etc/passwd").unlink()
    assert not login.lets_in()


def test_a_user_without_dn_would_be_anonymous(login: Login) -> None:
    login.knows("bob", "")
    assert not login.lets_in("bob")
    (login.logins / "names-1").write_text("carol\tmain\t!!!\ndave\tmain\n\tmain\tx\n")
    for user in ("carol", "dave"):
        assert not login.lets_in(user)
    assert login.asked == []


def test_a_directory_of_another_name_cannot_lead_out_of_its_folder(login: Login) -> None:
    login.knows("bob", DN, directory="../main")
    login.reaches("../main\ttls\tldaps://evil.example.com")
    assert not login.lets_in("bob")
    assert login.asked == []


def test_where_there_are_no_directories_there_are_no_passwords(login: Login) -> None:
    (login.logins / "passwords").unlink()
    assert not login.lets_in()
    assert login.asked == []


@pytest.mark.parametrize(
    "line", ["main\tplain\tldap://a", "main\ttls\tldap://a", "main\tplain\tldaps://a", "main\ttls\tldapi:///", "main"]
)
def test_a_password_is_never_sent_where_others_can_read_it(login: Login, line: str) -> None:
    login.reaches(line)
    assert not login.lets_in()
    assert login.asked == []
    assert login.log == "password: directory main: no address with TLS, so its users cannot log in with a password\n"


def test_starttls_is_demanded(login: Login) -> None:
    login.reaches("main\tstarttls\tldap://a")
    assert login.lets_in()
    assert "-ZZ" in login.words


@pytest.mark.parametrize(
    "lines",
    [
        ("main\ttls\tldaps://a,ldaps://b",),
        ("main\ttls\tldaps://a ldaps://b",),
        ("main\ttls\tldaps://a", "main\ttls\tldaps://b"),
    ],
)
def test_servers_that_are_down_are_passed_over(login: Login, lines: tuple[str, ...]) -> None:
    login.reaches("other\ttls\tldaps://c", *lines)
    login.answers(f"[[ $* == *ldaps://b* ]] || exit 255; {RIGHT}")
    assert login.lets_in()
    assert login.asked == ["ldaps://a", "ldaps://b"]


def test_a_wrong_password_is_wrong_at_one_server_and_counts_once(login: Login) -> None:
    login.reaches("main\ttls\tldaps://a,ldaps://b")
    login.answers("exit 49")
    assert not login.lets_in()
    assert login.asked == ["ldaps://a"]


def test_a_directory_that_is_down_is_told_in_the_log(login: Login) -> None:
    login.answers("exit 255")
    assert not login.lets_in()
    assert login.log == "password: directory main: no server could be asked for a password within 120 s\n"


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("echo anonymous; exit 0", False),
        ("echo 'u:EXAMPLE\\alice'; exit 0", True),
        ("exit 0", True),
        ("echo 'Result: Protocol error (2)'; exit 1", True),
        ("echo 'Result: Server is unwilling to perform (53)'; exit 1", True),
        ("echo 'Result: Insufficient access (50)'; exit 1", False),
        ("echo 'Result: Protocol error (2)' >&2; exit 1", False),
        ("echo 'Result: Protocol error (2)'; exit 49", False),
        ("exit 2", False),
        ("kill -9 $$", False),
    ],
)
def test_only_a_bind_that_went_well_counts(login: Login, answer: str, *, right: bool) -> None:
    """A server that does not know the question has answered the bind before; one that restricts the user says 50."""
    login.answers(answer)
    assert login.lets_in() == right


def test_servers_that_say_nothing_are_not_all_waited_for(login: Login) -> None:
    login.reaches("main\ttls\t" + ",".join(f"ldaps://{number}" for number in range(5)))
    login.answers("exec sleep 60")
    assert not login.lets_in(seconds=1)
    assert len(login.asked) <= 3


def test_the_script_runs_as_any_user_and_is_not_writable() -> None:
    assert os.access(SCRIPT, os.X_OK)
    assert not SCRIPT.stat().st_mode & 0o022
