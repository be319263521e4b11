"""How the machines of a Slurm cluster are made: which image, which folders of this machine, which daemon."""

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from sunk.local import images, paths
from sunk.local.slurm import configuration, development, wires
from sunk.local.slurm.box import PEOPLE, SLURM_USER, Bind, Box
from sunk.local.slurm.configuration import CONTROLLER, CONTROLLER_PORT, LOGIN, TOOLS, Node, Settings

SERVER: Final = f"{wires.address(0)}:{CONTROLLER_PORT}"
CLONE: Final = "/clone"
KEY_BYTES: Final = 128
AS_SLURM: Final = ("setpriv", f"--reuid={SLURM_USER}", f"--regid={SLURM_USER}", "--clear-groups")


class Layout(msgspec.Struct, frozen=True):
    """One cluster's place on this machine.

        etc/    /etc/slurm of the controller
        key/    /etc/slurm of all others: they have the key, and are sent the rest
        run/    /run/slurm of login and of our own image: sackd's socket, and the configuration it was sent
        home/   /home of all
        boxes/  the writable layers
    """

    cluster: str
    folder: Path
    version: str
    gpus: tuple[str, ...]

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def client_configuration(self) -> Path:
        """What sackd was sent; clients on its machine need no other."""
        return self.folder / "run" / "conf" / "slurm.conf"

    def make_folders(self) -> None:
        key = secrets.token_bytes(KEY_BYTES)
        for name in ("etc", "key"):
            path = self.folder / name / "slurm.key"
            path.parent.mkdir()
            path.touch(mode=0o600)
            path.write_bytes(key)
            _give(path, uid=SLURM_USER)
        (self.folder / "run").mkdir()
        _give(self.folder / "run", uid=SLURM_USER)
        for person in PEOPLE:
            (self.home / person.name).mkdir(parents=True)
            _give(self.home / person.name, uid=person.uid)

    def write(self, *, config: Settings, lines: Sequence[str], files: Mapping[str, str]) -> None:
        """Write slurm.conf and all beside it."""
        text = configuration.slurm_conf(self.cluster, address=wires.address(0), settings=config, lines=lines)
        for name, content in {"slurm.conf": text, **configuration.files(gpus=self.gpus), **files}.items():
            path = self.folder / "etc" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
            path.chmod(0o755 if content.startswith("#!") else 0o644)

    def controller(self) -> tuple[Box, tuple[str, ...]]:
        box = self._box(CONTROLLER, network=wires.namespace(self.cluster), etc="etc")
        return box, ("/usr/sbin/slurmctld", "-D")

    def login(self) -> tuple[Box, tuple[str, ...]]:
        return self._box(LOGIN, self._run), (*AS_SLURM, "/usr/sbin/sackd", "-D", "--conf-server", SERVER)

    def node(self, node: Node) -> tuple[Box, tuple[str, ...]]:
        # By its full path, like the others: on reconfigure a Slurm daemon executes argv[0] anew.
        command = ("/usr/sbin/slurmd", "-D", "-Z", "-N", node.name, "--conf-server", SERVER, "--conf", node.line)
        return self._box(node.name), command

    def tools(self) -> Box:
        """Our own image, on login's network."""
        packages = Bind(development.packages(self.version), development.FOLDER)
        binds = (self._run, packages, Bind(paths.project(), CLONE))
        return self._box(TOOLS, *binds, image="sunk", network=wires.namespace(self.cluster, LOGIN))

    @property
    def _run(self) -> Bind:
        return Bind(self.folder / "run", "/run/slurm", writable=True)

    def _box(self, name: str, *binds: Bind, image: str = "slurm", network: str = "", etc: str = "key") -> Box:
        return Box(
            name=name,
            image=images.root_file_system(image, slurm=self.version),
            folder=self.folder / "boxes" / name,
            network=network or wires.namespace(self.cluster, name),
            binds=(Bind(self.folder / etc, "/etc/slurm"), Bind(self.home, "/home", writable=True), *binds),
            hosts=((wires.address(0), CONTROLLER),),
            empty_files=tuple(configuration.gpu_files(self.gpus)),
        )


def _give(path: Path, *, uid: int) -> None:
    os.chown(path, uid, uid)
