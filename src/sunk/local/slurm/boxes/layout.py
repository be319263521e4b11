"""How the machines of a Slurm cluster are made: which image, which folders of this machine, which daemon."""

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from sunk.local import paths
from sunk.local.artifacts import images
from sunk.local.slurm import accounting, configuration, munge, testpackages
from sunk.local.slurm.boxes import network as networks
from sunk.local.slurm.boxes.box import DATABASE_USER, PEOPLE, SLURM_USER, Bind, Box
from sunk.local.slurm.configuration import (
    ACCOUNTING,
    CONTROLLER,
    CONTROLLER_PORT,
    DATABASE,
    LOGIN,
    TOOLS,
    Node,
    Settings,
    merge,
)

SERVER: Final = f"{networks.address(networks.CONTROLLER)}:{CONTROLLER_PORT}"
CLONE: Final = "/clone"
COPIED: Final = ("pyproject.toml", "docs", "src", "tests")
REMOTE: Final = "/run/remote"
KEY_BYTES: Final = 128
# Unless told, a daemon remembers for its next start which of the two it found at its first.
KEY_FILES: Final = ("/usr/bin/env", "SLURM_SACK_KEY=/etc/slurm/slurm.key", "SLURM_SACK_JWKS=/etc/slurm/slurm.jwks")
AS_SLURM: Final = ("setpriv", f"--reuid={SLURM_USER}", f"--regid={SLURM_USER}", "--clear-groups")


class Layout(msgspec.Struct, frozen=True):
    """One cluster's place on this machine.

    etc/    /etc/slurm of the controller
    key/    /etc/slurm of all others: they have the key, and are sent the rest
    run/    /run/slurm of login and of our own image: sackd's socket, and the configuration it was sent
    home/   /home of all
    clone/  a copy of our sources and tests, for our own image
    remote/ the socket by which tests in there steer the cluster
    dbd/    /etc/slurm of slurmdbd; secret/ the database's password; munge/ munge's key; munge-run/ login's munge socket
    boxes/  the writable layers
    """

    cluster: str
    folder: Path
    version: str
    gpus: tuple[str, ...]
    accounting: bool = False
    munge: bool = False

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def client_configuration(self) -> Path:
        """What sackd was sent; clients on its machine need no other."""
        return self.folder / "run" / "conf" / "slurm.conf"

    def introduce(self, indexes: Mapping[str, int]) -> None:
        """Write names of machines into the list that all of them share: slurmctld asks for the name of every client."""
        with (self.folder / "hosts").open("a") as hosts:
            hosts.writelines(f"{networks.address(index)}\t{name}\n" for name, index in indexes.items())

    def make_folders(self) -> None:
        (self.folder / "hosts").write_text("127.0.0.1\tlocalhost\n")
        self.introduce({CONTROLLER: networks.CONTROLLER, LOGIN: networks.LOGIN, TOOLS: networks.LOGIN})
        for name in ("etc", "key", "dbd", "munge", "munge-run", "secret"):
            (self.folder / name).mkdir()
        self._write_keys()
        self._write_credentials()
        (self.folder / "run").mkdir()
        _give(self.folder / "run", uid=SLURM_USER)
        for person in PEOPLE:
            (self.home / person.name).mkdir(parents=True)
            _give(self.home / person.name, uid=person.uid)

    def _write_keys(self) -> None:
        # A daemon that has no configuration yet asks for one by auth/slurm where there is this key, else by munge.
        key = secrets.token_bytes(KEY_BYTES)
        for name in () if self.munge else ("etc", "key", "dbd"):
            _write_secret(self.folder / name / "slurm.key", key, uid=SLURM_USER)
        _write_secret(self.folder / "munge" / "munge.key", secrets.token_bytes(munge.KEY_BYTES), uid=0)

    def _write_credentials(self) -> None:
        """Give slurmdbd and its database one password, each in the form that it reads."""
        password = secrets.token_hex()
        auth = "auth/munge" if self.munge else "auth/slurm"
        text = accounting.slurmdbd_conf(password=password, auth=auth)
        _write_secret(self.folder / "dbd" / "slurmdbd.conf", text.encode(), uid=SLURM_USER)
        _write_secret(self.folder / "secret" / "password", password.encode(), uid=DATABASE_USER)

    def write(self, *, config: Settings, lines: Sequence[str], files: Mapping[str, str]) -> None:
        """Write slurm.conf and all beside it."""
        chosen = merge(accounting.SETTINGS if self.accounting else {}, munge.SETTINGS if self.munge else {})
        text = configuration.slurm_conf(
            self.cluster, address=networks.address(networks.CONTROLLER), settings=merge(chosen, config), lines=lines
        )
        for name, content in {"slurm.conf": text, **configuration.files(gpus=self.gpus), **files}.items():
            path = self.folder / "etc" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
            path.chmod(0o755 if content.startswith("#!") else 0o644)

    def controller(self) -> tuple[Box, tuple[str, ...]]:
        box = self._box(CONTROLLER, network=networks.namespace(self.cluster), etc="etc")
        return box, self._with_munge("/usr/sbin/slurmctld", "-D")

    def login(self) -> tuple[Box, tuple[str, ...]]:
        box = self._box(LOGIN, self._run, self._munge_socket)
        return box, self._with_munge(*AS_SLURM, "/usr/sbin/sackd", "-D", "--conf-server", SERVER)

    def node(self, node: Node) -> tuple[Box, tuple[str, ...]]:
        # By its full path, like the others: on reconfigure a Slurm daemon executes argv[0] again.
        command = ("/usr/sbin/slurmd", "-D", "-N", node.name, "--conf-server", SERVER)
        introduced = ("-Z", "--conf", node.line) if node.dynamic else ()
        return self._box(node.name), self._with_munge(*command, *introduced, *node.options)

    def accountant(self) -> tuple[Box, tuple[str, ...]]:
        return self._box(ACCOUNTING, etc="dbd"), self._with_munge("/usr/sbin/slurmdbd", "-D")

    def database(self) -> tuple[Box, tuple[str, ...]]:
        box = Box(
            name=DATABASE,
            image=images.root_file_system("mariadb", slurm=self.version),
            folder=self.folder / "boxes" / DATABASE,
            network=networks.namespace(self.cluster, DATABASE),
            binds=(Bind(self.folder / "hosts", "/etc/hosts"), Bind(self.folder / "secret", "/etc/secret")),
        )
        return box, accounting.SERVE

    def tools(self) -> Box:
        """Our own image, on login's network."""
        for name in ("clone", "remote"):
            (self.folder / name).mkdir(exist_ok=True)
        binds = (
            self._run,
            self._munge_socket,
            Bind(testpackages.packages(self.version), testpackages.FOLDER),
            Bind(self.folder / "clone", CLONE),
            Bind(self.folder / "remote", REMOTE),
        )
        return self._box(TOOLS, *binds, image="sunk", network=networks.namespace(self.cluster, LOGIN))

    def copy_clone(self) -> None:
        """Copy what tests inside our image need. A copy, because whoever runs them may not be let into the clone."""
        project = paths.project()
        found = (file for name in COPIED for file in (project / name, *(project / name).rglob("*")))
        files = (file for file in found if file.is_file() and "__pycache__" not in file.parts)
        images.stage(files, folder=self.folder / "clone", root=project)

    @property
    def _run(self) -> Bind:
        return Bind(self.folder / "run", "/run/slurm", writable=True)

    @property
    def _munge_socket(self) -> Bind:
        return Bind(self.folder / "munge-run", munge.FOLDER, writable=True)

    def _with_munge(self, *daemon: str) -> tuple[str, ...]:
        return munge.beside(daemon) if self.munge else (*KEY_FILES, *daemon)

    def _box(self, name: str, *binds: Bind, image: str = "slurm", network: str = "", etc: str = "key") -> Box:
        return Box(
            name=name,
            image=images.root_file_system(image, slurm=self.version),
            folder=self.folder / "boxes" / name,
            network=network or networks.namespace(self.cluster, name),
            binds=(
                Bind(self.folder / etc, "/etc/slurm"),
                Bind(self.folder / "hosts", "/etc/hosts"),
                Bind(self.folder / "munge", "/etc/secret"),
                Bind(self.home, "/home", writable=True),
                *binds,
            ),
            devices=tuple(configuration.gpu_devices(self.gpus)),
        )


def _write_secret(path: Path, content: bytes, *, uid: int) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
    _give(path, uid=uid)


def _give(path: Path, *, uid: int) -> None:
    os.chown(path, uid, uid)
