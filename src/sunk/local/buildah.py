"""Run buildah on a storage of our own, so that nothing of a build outlives it and nothing else on the machine meets it.

A build mounts layers and starts package managers, and it may be interrupted at any moment. So every command gets a
mount and a process namespace: whoever is killed, by whatever signal, the kernel ends the processes and takes the
mounts along. What can stay behind is a half-made container in the storage, and those are removed before the next
build. One lock serves all: two builders on one storage would remove each other's containers.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from sunk.local import paths
from sunk.local.shell import run
from sunk.model.refusal import Refusal

PATIENCE = 1800.0
ISOLATED = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"),
)
# No signatures are asked for, because nothing is ever pulled: the only images are those we made.
POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}\n'


class Build(msgspec.Struct, frozen=True):
    """One stage of a Containerfile to build, and the name to give to it."""

    containerfile: Path
    context: Path
    name: str
    target: str = ""
    arguments: Mapping[str, str] = {}
    secrets: Mapping[str, Path] = {}
    """Files that build steps may read and that never get into a layer."""


class Storage(msgspec.Struct, frozen=True):
    """A folder of layers and images. Get it from `storage()`, which holds the lock."""

    folder: Path

    @property
    def command(self) -> tuple[str, ...]:
        return ("buildah", "--root", str(self.folder / "layers"), "--runroot", str(self.folder / "run"))

    def build(self, wanted: Build) -> None:
        words = ["build", "--isolation=chroot", "--layers", "--pull-never", "--format=oci", *self._policy()]
        words += [f"--file={wanted.containerfile}", f"--tag={wanted.name}"]
        words += [f"--target={wanted.target}"] if wanted.target else []
        words += [f"--build-arg={name}={value}" for name, value in wanted.arguments.items()]
        words += [f"--secret=id={name},src={file}" for name, file in wanted.secrets.items()]
        self._run([*self.command, *words, str(wanted.context)])

    def has(self, name: str) -> bool:
        return name in self._run([*self.command, "images", "--format={{.Name}}:{{.Tag}}"]).splitlines()

    def export(self, name: str, *, archive: Path) -> None:
        """Write an OCI archive. zstd makes the smallest, and the one that containerd imports quickest."""
        words = ["push", "--quiet", "--compression-format=zstd", *self._policy()]
        self._run([*self.command, *words, name, f"oci-archive:{archive}:{name}"])

    def unpack(self, archive: Path, *, folder: Path) -> None:
        """Lay the files of an image out in a folder."""
        buildah, policy = " ".join(self.command), " ".join(self._policy())
        script = (
            f'container=$({buildah} from {policy} "oci-archive:$1")\n'
            f'cp --archive "$({buildah} mount "$container")/." "$2"\n'
            f'{buildah} rm "$container"\n'
        )
        self._run(["sh", "-euc", script, "unpack", str(archive), str(folder)])

    def prune(self) -> None:
        """Forget images that lost their name to a newer build. Layers that a named image stands on stay."""
        self._run([*self.command, "rmi", "--prune"])

    def clean(self) -> None:
        """Remove what a build left behind when it was killed. Its mounts and processes are gone already."""
        for name in ("run", "scratch"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
            (self.folder / name).mkdir(parents=True)
        (self.folder / "policy.json").write_text(POLICY)
        self._run([*self.command, "rm", "--all"])

    def _policy(self) -> tuple[str, ...]:
        return (f"--signature-policy={self.folder / 'policy.json'}",)

    def _run(self, command: Sequence[str]) -> str:
        return isolated(command, scratch=self.folder / "scratch")


@contextmanager
def storage() -> Iterator[Storage]:
    """Hold the storage of this machine's cache, cleaned of what earlier builds left behind."""
    kept = Storage(folder=paths.cache() / "buildah")
    kept.folder.mkdir(parents=True, exist_ok=True)
    with (kept.folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            kept.clean()
        except Refusal:
            # Damage in a storage that holds nothing but copies is not worth a repair.
            shutil.rmtree(kept.folder / "layers", ignore_errors=True)
            kept.clean()
        yield kept


def isolated(command: Sequence[str], *, scratch: Path) -> str:
    """Run to the end in namespaces that die with this process, temporary files in `scratch`."""
    environment = {**os.environ, "TMPDIR": str(scratch), "STORAGE_DRIVER": "overlay"}
    return run([*ISOLATED, *command], env=environment, timeout=PATIENCE)
