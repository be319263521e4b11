"""A process of ours beside a Slurm of boxes, on a machine of its own that reaches an API server too.

```python
with slurm.cluster(nodes=1) as it:
    syncer = Component(it, "syncer", api=cluster, command=("sunk", "syncer", "--cluster", "demo", "--namespace", "default"))
    syncer.start(); syncer.kill(); syncer.start()
```

It runs the package as it is in this clone on the files of our own image: their Python, their packages, their libslurm.
So a change of ours is tried at once, and another image is built only if what is compiled in it changes. It runs as the
user slurm and speaks with slurmctld through login's sackd.
"""

import json
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Final

from sunk.local import paths
from sunk.local.artifacts import cache, debian, images
from sunk.local.kubernetes.cluster import LocalCluster
from sunk.local.kubernetes.network import LocalNetwork
from sunk.local.shell import run
from sunk.local.slurm import testpackages
from sunk.local.slurm.boxes import network
from sunk.local.slurm.boxes.box import Bind, Box
from sunk.local.slurm.boxes.layout import AS_SLURM
from sunk.local.slurm.running import Slurm
from sunk.model.refusal import Refusal

PACKAGE: Final = "src/sunk"
EXTENSION: Final = "slurm/binding"
COMPILED: Final = (
    images.CONTAINERFILE,
    "requirements/run.txt",
    f"{PACKAGE}/{EXTENSION}",
    f"{PACKAGE}/slurm/records.py",
)
"""What decides the parts of the image that are not our Python."""
NOT_ALL: Final = ("local", "insight")
"""Packages that no process of ours needs byte code of."""
ATTEMPTS: Final = 5
KUBECONFIG: Final = "/etc/kube/config"
FIRST_INDEX: Final = 59_000
"""Addresses behind those of nodes."""
FURTHER: Final = 254
"""Third octet of the API cluster's network that nothing else uses."""
MOST_LINKS: Final = 60
_NOTHING: Final[Mapping[str, str]] = {}


class Component:
    """One such machine, and the process on it."""

    def __init__(  # noqa: PLR0913 - each stands for itself, and the last two have defaults
        self,
        slurm: Slurm,
        name: str,
        *,
        api: LocalCluster,
        command: Sequence[str],
        env: Mapping[str, str] = _NOTHING,
        kubeconfig: Path | None = None,
    ) -> None:
        """With another kubeconfig than the administrator's it has other rights."""
        self.name: Final = name
        self.slurm: Final = slurm
        self.network: Final = network.namespace(slurm.layout.cluster, name)
        index = FIRST_INDEX + len(slurm.machines.boxes)
        network.connect(slurm.layout.cluster, {name: index})
        slurm.layout.introduce({name: index})
        _connect(self.network, api.network)
        values = {"KUBECONFIG": KUBECONFIG, **env}
        words = ("env", *(f"{key}={value}" for key, value in values.items()), *AS_SLURM, *command)
        slurm.machines.add(self._box(kubeconfig or api.kubeconfig), daemon=words)
        slurm.machines.up(name)

    def start(self) -> None:
        self.slurm.machines.start(self.name)
        # What was started is nsenter, which has the process as its child a moment later.
        self.slurm.machines.wait(lambda: self.runs, what=f"the process of {self.name}")

    def stop(self) -> None:
        self.slurm.stop(self.name)

    def kill(self) -> None:
        """As the kernel does it: no farewell."""
        self.slurm.stop(self.name, with_signal=signal.SIGKILL)

    @property
    def runs(self) -> bool:
        return self.process is not None

    @property
    def process(self) -> int | None:
        """Its number on this machine."""
        return self.slurm.machines.daemon(self.name)

    def log(self) -> str:
        return self.slurm.log(self.name)

    def _box(self, kubeconfig: Path) -> Box:
        layout = self.slurm.layout
        root = files(layout.version)
        folder = layout.folder / f"ours-{self.name}"
        package = _copy_package(folder / "sunk", root=root)
        (folder / "kube").mkdir()
        config = folder / "kube" / "config"
        shutil.copyfile(kubeconfig, config)
        config.chmod(0o644)
        inside = f"/opt/sunk/lib/python{testpackages.python_version(root)}/site-packages/sunk"
        return Box(
            name=self.name,
            image=root,
            folder=layout.folder / "boxes" / self.name,
            network=self.network,
            binds=(
                Bind(layout.folder / "key", "/etc/slurm"),
                Bind(layout.folder / "hosts", "/etc/hosts"),
                Bind(layout.folder / "run", "/run/slurm", writable=True),
                Bind(config.parent, str(Path(KUBECONFIG).parent)),
                Bind(package, inside),
            ),
        )


def files(version: str) -> Path:
    """Give our image's files, in which everything but our own Python is what this clone makes."""
    project = paths.project()

    def key() -> str:
        found = [file for name in COMPILED for file in _sources(project / name)]
        return cache.key(values=(debian.key(images.SUITES[version]),), files=found, root=project)

    def lend(folder: Path) -> None:
        before = key()
        root = images.root_file_system("sunk", slurm=version)
        if key() != before:
            raise Refusal("a source of what is compiled into the image changed while it was being built. Repeat this.")
        # Links and no copies: the image's files are never written to, here or there.
        run(["cp", "--archive", "--link", root, folder / "root"])

    for _ in range(ATTEMPTS - 1):
        try:
            return cache.entry(f"lent-{version}", lend, key=key()) / "root"
        except Refusal:
            time.sleep(1.0)  # somebody is saving files
    return cache.entry(f"lent-{version}", lend, key=key()) / "root"


def _sources(path: Path) -> list[Path]:
    found = [path] if path.is_file() else sorted(path.rglob("*"))
    return [file for file in found if file.is_file() and "__pycache__" not in file.parts and file.suffix != ".so"]


def _copy_package(folder: Path, *, root: Path) -> Path:
    """Copy our package with the extension of the image, and compile it: so it starts as quickly as it would there."""
    package = paths.project() / PACKAGE
    sources = (file for file in _sources(package) if not file.is_relative_to(package / "local" / "artifacts" / "go"))
    images.stage(sources, folder=folder, root=package)
    for made in root.glob(f"opt/sunk/lib/python3.*/site-packages/sunk/{EXTENSION}/*.so"):
        shutil.copy(made, folder / EXTENSION)
    python = next(root.glob("usr/bin/python3.*[0-9]"))
    parts = [each.name for each in folder.iterdir() if each.is_dir() and each.name not in NOT_ALL]
    # In a chroot of its own: this machine's Python may be of another version.
    script = f"mount --bind {folder} {root}/mnt && chroot {root} /usr/bin/{python.name} -m compileall -q {_modes()} {_inside(parts)}"
    run(["unshare", "--mount", "sh", "-ec", script])
    return folder


def _modes() -> str:
    return "--invalidation-mode unchecked-hash -j 1"


def _inside(parts: Sequence[str]) -> str:
    return " ".join(["/mnt/__init__.py", "/mnt/cli.py", *(f"/mnt/{part}" for part in parts)])


def _connect(inside: str, api: LocalNetwork) -> None:
    """Lay a wire to the API server's namespace. It goes with either of them."""
    links = json.loads(run(["ip", "-netns", api.namespace, "-json", "link", "show"]))
    taken = {each["ifname"] for each in links}
    number = next(number for number in range(MOST_LINKS) if f"beside{number}" not in taken)
    first = IPv4Network(api.block).network_address + (FURTHER << 8) + 4 * number
    here, there = IPv4Address(first + 1), IPv4Address(first + 2)
    _ip(
        api.namespace,
        f"link add beside{number} type veth peer name api netns {inside}",
        f"address add {there}/30 dev beside{number}",
        f"link set beside{number} up",
    )
    _ip(inside, f"address add {here}/30 dev api", "link set api up", f"route add {api.api}/32 via {there}")


def _ip(namespace: str, *lines: str) -> None:
    run(["ip", "-netns", namespace, "-batch", "-"], stdin="\n".join(lines) + "\n")
