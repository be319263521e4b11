"""People with a real ssh client on this machine, outside the cluster, who come in by the address of the login Service."""

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from msgspec import Struct
from tests.e2e.slurmcluster.release import Release
from tests.waiting import eventually

REFUSED: Final = 255
_QUIET: Final = (
    "-F",
    "/dev/null",
    "-o",
    "LogLevel=ERROR",
    "-o",
    "ConnectTimeout=10",
    "-o",
    "NumberOfPasswordPrompts=1",
)


class KeyPair(Struct, frozen=True):
    private: str
    public: str


def key_pair() -> KeyPair:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", file], check=True)
        return KeyPair(file.read_text(), file.with_suffix(".pub").read_text())


class Visitor(Struct, frozen=True):
    """Somebody at a laptop, with a key or a password. The host key is known: any other ends the login."""

    user: str
    address: str
    folder: Path
    key: Path | None = None
    password: str = ""

    def __call__(self, command: str) -> str:
        done = self.attempt(command)
        assert done.returncode == 0, f"{self.user}: {command}: {done.returncode}: {done.stderr or done.stdout}"
        return done.stdout.strip()

    def attempt(self, command: str, *, timeout: float = 60) -> "subprocess.CompletedProcess[str]":
        words, environment = self._client(), self._environment()
        return subprocess.run(
            [*words, command], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=timeout, check=False,
        )  # fmt: skip

    def gets_in(self) -> bool:
        return self.attempt("true").returncode == 0

    def is_refused(self) -> bool:
        """By sshd, and not by a network that is broken."""
        done = self.attempt("true")
        return done.returncode == REFUSED and "Permission denied" in done.stderr

    def begin(self, command: str) -> "subprocess.Popen[str]":
        """Stay there while the test goes on."""
        return subprocess.Popen(
            [*self._client(), command], env=self._environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def _client(self) -> list[str]:
        known = ("-o", f"UserKnownHostsFile={self.folder / 'known_hosts'}", "-o", "StrictHostKeyChecking=yes")
        to = (*_QUIET, *known, f"{self.user}@{self.address}")
        if self.key is None:
            return ["ssh", "-o", "PubkeyAuthentication=no", "-o", "PreferredAuthentications=password", *to]
        # With an agent, which they take along: this is how they get from the login to a node.
        add = 'ssh-add -q "$1" 2> /dev/null; shift; exec "$@"'
        alone = ("-o", "IdentitiesOnly=yes", "-i", str(self.key), "-o", "PreferredAuthentications=publickey", "-A")
        return ["ssh-agent", "sh", "-c", add, "sh", str(self.key), "ssh", *alone, *to]

    def _environment(self) -> dict[str, str]:
        """Nobody types here: ssh asks a program for the password."""
        found = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        if not self.password:
            return found
        ask = self.folder / "ask"
        if not ask.exists():
            ask.write_text('#!/bin/sh\nprintf "%s\\n" "$TEST_PASSWORD"\n')
            ask.chmod(0o700)
        return found | {"SSH_ASKPASS": str(ask), "SSH_ASKPASS_REQUIRE": "force", "TEST_PASSWORD": self.password}


class Entrance(Struct, frozen=True):
    """The way into a cluster, and what visitors know of it."""

    address: str
    folder: Path

    def by_key(self, user: str, pair: KeyPair) -> Visitor:
        file = self.folder / f"{user}.key"
        file.touch(mode=0o600)
        file.write_text(pair.private)
        return Visitor(user, self.address, self.folder, key=file)

    def by_password(self, user: str, password: str) -> Visitor:
        return Visitor(user, self.address, self.folder, password=password)


def entrance(slurm: Release, folder: Path, *, service: str = "") -> Entrance:
    """Wait for the address, and learn the host keys from the Secret that has them."""
    name = service or f"{slurm.name}-login"
    wanted = ("-o", "jsonpath={.status.loadBalancer.ingress[0].ip}")
    eventually(lambda: slurm.kubectl("get", "service", name, *wanted) != "")
    address = slurm.kubectl("get", "service", name, *wanted)
    keys = [f"{address} {' '.join(line.split()[:2])}\n" for line in host_keys(slurm)]
    (folder / "known_hosts").write_text("".join(keys))
    return Entrance(address, folder)


def host_keys(slurm: Release) -> list[str]:
    """Public host keys of the login Pods, out of their Secret."""
    names = ("ssh_host_ed25519_key", "ssh_host_rsa_key")
    template = "\n".join(f'{{{{index .data "{name}.pub" | base64decode}}}}' for name in names)
    text = slurm.kubectl("get", "secret", f"{slurm.name}-ssh-host-keys", "-o", f"go-template={template}")
    return [line for line in text.splitlines() if line.strip()]


def shown_keys(address: str) -> set[str]:
    """What an sshd shows as its host keys: types and keys."""
    command = ["ssh-keyscan", "-T", "10", "-t", "ed25519,rsa", address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    lines = [line.split() for line in done.stdout.splitlines() if line and not line.startswith("#")]
    return {f"{kind} {key}" for _, kind, key in lines}
