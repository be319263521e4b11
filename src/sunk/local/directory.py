"""A real LDAP directory on this machine: OpenLDAP's slapd out of the image `directory`, on loopback, with TLS.

It runs as a process of whoever starts it, straight out of the files of the image: their own dynamic loader starts it with their own
libraries. So it needs neither root nor namespaces, and there are as many as one likes, each with a folder and ports of its own.

    with server(folder) as directory:
        directory.add(person("alice", 1001))
        ... directory.uri, directory.ldaps_uri, directory.authority ...
        directory.stop(), directory.start(), directory.pause(), directory.certify("other.example.com")
"""

import base64
import datetime as dt
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from sunk.local.artifacts import images
from sunk.local.certificates import LASTS, FiledAuthority
from sunk.local.shell import run
from sunk.model.refusal import Refusal

BASE: Final = "dc=example,dc=com"
ADMIN: Final = f"cn=admin,{BASE}"
READER: Final = f"cn=reader,{BASE}"
PEOPLE: Final = f"ou=people,{BASE}"
GROUPS: Final = f"ou=groups,{BASE}"
PASSWORD: Final = "directory"  # noqa: S105 - of a server on loopback that lives as long as a test
PATIENCE: Final = 20.0
PROGRAMS: Final = ("ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldapwhoami")
SCHEMAS: Final = ("core", "cosine", "nis", "inetorgperson")
Values = str | bytes | int | Sequence[str | bytes]
"""Of an attribute."""


class Programs:
    """The programs of the image, each started by the image's own loader."""

    def __init__(self, folder: Path, *, version: str = images.DEFAULT) -> None:
        self.root: Final = images.root_file_system("directory", slurm=version)
        loaders = sorted(self.root.glob("usr/lib/*/ld-linux-*.so.*"))
        if not loaders:
            raise Refusal(f"{self.root} has no dynamic loader, so nothing in it can be started.")
        self._start: Final = (str(loaders[0]), "--library-path", f"{loaders[0].parent}:{self.root / 'usr/lib'}")
        self.bin: Final = folder / "bin"
        self.bin.mkdir(parents=True, exist_ok=True)
        for name in PROGRAMS:
            wrapper = self.bin / name
            wrapper.write_text(f'#!/bin/sh\nexec {" ".join(self._start)} {self.root / "usr/bin" / name} "$@"\n')
            wrapper.chmod(0o755)

    def slapd(self, *arguments: str) -> list[str]:
        return [*self._start, str(self.root / "usr/sbin/slapd"), *arguments]


class DirectoryServer:
    """One slapd, with its data and its certificates."""

    def __init__(self, folder: Path, *, programs: Programs, demand_certificate: bool = False) -> None:
        self._folder = folder
        self._programs = programs
        self._demand = demand_certificate
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        (folder / "data").mkdir(parents=True)
        (folder / "tls").mkdir()
        self.authority: Final = FiledAuthority(folder / "tls")
        self._files = self.authority.server("127.0.0.1", "localhost")
        self._port, self._tls_port = _free_port(), _free_port()
        self.options: list[str] = []
        """More lines of slapd.conf, before the database's own end; they count from the next start on."""

    @property
    def uri(self) -> str:
        return f"ldap://127.0.0.1:{self._port}"

    @property
    def ldaps_uri(self) -> str:
        return f"ldaps://127.0.0.1:{self._tls_port}"

    @property
    def bin(self) -> Path:
        """A folder for PATH with ldapsearch and its kin."""
        return self._programs.bin

    def certify(self, *hosts: str, lasts: dt.timedelta = LASTS) -> None:
        """Have another certificate from the next start on: for other names, or for a time that has passed."""
        self._files = self.authority.server(*(hosts or ("127.0.0.1", "localhost")), lasts=lasts)

    def start(self) -> None:
        configuration = self._folder / "slapd.conf"
        configuration.write_text(self._configuration())
        self._log = (self._folder / "log").open("ab")
        command = self._programs.slapd(
            *("-d", "stats", "-f", str(configuration), "-h", f"{self.uri}/ {self.ldaps_uri}/"),
        )
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, cwd="/")
        deadline = time.monotonic() + PATIENCE
        while not (_listens(self._port) and _listens(self._tls_port)):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise Refusal(f"slapd does not start. Its last words:\n{self.log()[-2000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End it; what it knows stays."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def pause(self) -> None:
        """Let it hang: it takes connections, and answers nobody."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        if self._process is None:
            raise Refusal("slapd does not run. `start` starts it.")
        os.kill(self._process.pid, number)

    def log(self) -> str:
        with suppress(FileNotFoundError):
            return (self._folder / "log").read_text(errors="replace")
        return ""

    def searches(self) -> int:
        """How many searches it was asked for, since the beginning."""
        return self.log().count(" SRCH base=")

    def add(self, *entries: str) -> None:
        """Add entries, as `entry` writes them."""
        self._change("ldapadd", "\n".join(entries))

    def modify(self, text: str) -> None:
        """Change entries, by LDIF with `changetype`."""
        self._change("ldapmodify", text)

    def delete(self, *names: str) -> None:
        self._change("ldapdelete", "\n".join(names))

    def _change(self, program: str, text: str) -> None:
        secret = self._folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o600)
        command: list[str | Path] = [self._programs.bin / program, "-x", "-H", self.uri, "-D", ADMIN, "-y", secret]
        run(command, stdin=f"{text}\n", timeout=300)

    def _configuration(self) -> str:
        root = self._programs.root
        certificate, key = self._files
        lines = [
            *(f"include {root}/etc/ldap/schema/{name}.schema" for name in SCHEMAS),
            # What other servers have: keys, and what a user of Active Directory and of FreeIPA looks like.
            f"include {root}/usr/lib/sunk/people.schema",
            *(f"modulepath {root}/usr/lib/ldap", "moduleload back_mdb"),
            f"pidfile {self._folder}/pid",
            # Whoever is limited is limited by `options`.
            *("sizelimit unlimited", "sasl-secprops none"),
            f"TLSCACertificateFile {self.authority.certificate}",
            *(f"TLSCertificateFile {certificate}", f"TLSCertificateKeyFile {key}"),
            f"TLSVerifyClient {'demand' if self._demand else 'never'}",
            "database mdb",
            *(f'suffix "{BASE}"', f'rootdn "{ADMIN}"', f"rootpw {PASSWORD}", f"directory {self._folder}/data"),
            *("maxsize 1073741824", "dbnosync", "index objectClass,uid,uidNumber,gidNumber eq"),
            *self.options,
            "access to attrs=userPassword by anonymous auth by * none",
            "access to * by users read by * none",
        ]
        return "".join(f"{line}\n" for line in lines)


@contextmanager
def server(
    folder: Path, *, version: str = images.DEFAULT, demand_certificate: bool = False
) -> Iterator[DirectoryServer]:
    """A directory with nobody in it but the account READER, for the length of a block."""
    made = DirectoryServer(folder, programs=Programs(folder, version=version), demand_certificate=demand_certificate)
    made.start()
    try:
        made.add(
            entry(BASE, objectClass=["dcObject", "organization"], dc="example", o="example"),
            entry(PEOPLE, objectClass="organizationalUnit", ou="people"),
            entry(GROUPS, objectClass="organizationalUnit", ou="groups"),
            entry(
                READER,
                objectClass=["simpleSecurityObject", "organizationalRole"],
                cn="reader",
                userPassword=PASSWORD,
            ),
        )
        yield made
    finally:
        made.stop()


def entry(dn: str, /, **attributes: Values) -> str:
    """Write an entry in LDIF. All values in base64: some are there to do harm."""
    lines = [f"dn:: {_encoded(dn)}"]
    for name, given in attributes.items():
        values = [given] if isinstance(given, str | bytes | int) else given
        lines += [f"{name}:: {_encoded(value)}" for value in values]
    return "\n".join(lines) + "\n"


def person(name: str, uid: int, /, *, dn: str = "", **attributes: Values) -> str:
    """A user of rfc2307, who can log in with the password of the same name."""
    defaults: dict[str, Values] = {
        "objectClass": ["account", "posixAccount", "simpleSecurityObject", "ldapPublicKey"],
        "uid": name,
        "cn": name,
        "uidNumber": uid,
        "gidNumber": 10_000,
        "homeDirectory": f"/home/{name}",
        "userPassword": name,
    }
    return entry(dn or f"uid={name},{PEOPLE}", **{**defaults, **attributes})


def group(name: str, gid: int, *members: str) -> str:
    """A group of rfc2307, which names its members."""
    found: dict[str, str | Sequence[str]] = {"memberUid": list(members)} if members else {}
    return entry(f"cn={name},{GROUPS}", objectClass="posixGroup", cn=name, gidNumber=gid, **found)


def _encoded(value: str | bytes | int) -> str:
    data = value if isinstance(value, bytes) else str(value).encode()
    return base64.b64encode(data).decode()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port: int = held.getsockname()[1]
        return port


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return True
    except OSError:
        return False
