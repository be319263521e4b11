"""Run buildah on a storage of our own, so that nothing of a build outlives it and nothing else on the machine meets it.

A build mounts layers and starts package managers, and it may be interrupted at any moment. So every command gets a
mount and a process namespace: whoever is killed, by whatever signal, the kernel ends the processes and takes the
mounts along. What can stay behind is a half-made container in the storage, and those are removed before the next
build. One lock serves all: two builders on one storage would remove each other's containers.
"""

import fcntl
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from sunk.local import paths
from sunk.local.shell import run, works
from sunk.model.refusal import Refusal

PATIENCE = 1800.0
ISOLATED = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"),
)
# No signatures are asked for, because nothing is ever pulled: the only images are those made here.
POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}\n'
NOISE = ("subprocess exited with status", "Error: building at STEP")
LONGEST = 300


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
    """A folder of layers and images. `storage()` gives it, with the lock held."""

    folder: Path
    driver: str = "overlay"

    @property
    def scratch(self) -> Path:
        """For files of one build; emptied before the next one."""
        return self.folder / "scratch"

    def build(self, wanted: Build) -> None:
        options = ["--isolation=chroot", "--layers", "--pull-never", "--format=oci"]
        options += [f"--file={wanted.containerfile}", f"--tag={wanted.name}"]
        options += [f"--target={wanted.target}"] if wanted.target else []
        options += [f"--build-arg={name}={value}" for name, value in wanted.arguments.items()]
        options += [f"--secret=id={name},src={file}" for name, file in wanted.secrets.items()]
        try:
            self._run("build", self._policy, *options, str(wanted.context))
        except Refusal as refusal:
            raise Refusal(complaint(str(refusal))) from refusal

    def has(self, name: str) -> bool:
        return name in self._run("images", "--format={{.Name}}:{{.Tag}}").splitlines()

    def export(self, name: str, *, archive: Path) -> None:
        """Write an OCI archive. With zstd it is the smallest, and the one that containerd imports quickest."""
        destination = f"oci-archive:{archive}:{name}"
        self._run("push", "--quiet", "--compression-format=zstd", self._policy, name, destination)

    def unpack(self, archive: Path, *, folder: Path) -> None:
        """Lay the files of an image out in a folder."""
        # One shell for all three: a mount lives no longer than the namespace of its command.
        script = 'made=$("$@" from "$policy" "oci-archive:$archive"); cp -a "$("$@" mount "$made")/." "$folder"; "$@" rm "$made"'
        values = {"archive": str(archive), "folder": str(folder), "policy": self._policy}
        isolated(["sh", "-euc", script, "sh", *self._command], scratch=self.scratch, env=values)

    def prune(self) -> None:
        """Forget images that lost their name to a newer build. Layers that a named image stands on stay."""
        self._run("rmi", "--prune")

    def clean(self) -> None:
        """Remove what a build left behind when it was killed. Its mounts and processes are gone already."""
        for folder in (self.folder / "run", self.scratch):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        (self.folder / "policy.json").write_text(POLICY)
        self._run("rm", "--all")

    @property
    def _policy(self) -> str:
        return f"--signature-policy={self.folder / 'policy.json'}"

    @property
    def _command(self) -> tuple[str, ...]:
        folders = (f"--root={self.folder / 'layers'}", f"--runroot={self.folder / 'run'}")
        return ("buildah", *folders, f"--storage-driver={self.driver}")

    def _run(self, verb: str, *words: str) -> str:
        return isolated([*self._command, verb, *words], scratch=self.scratch)


@contextmanager
def storage() -> Iterator[Storage]:
    """Hold the storage of this machine's cache, cleaned of what earlier builds left behind."""
    folder = paths.cache() / "buildah"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = Storage(folder=folder, driver=_driver(folder))
        try:
            kept.clean()
        except Refusal:
            # All it holds can be made again, so damage is not worth a repair.
            shutil.rmtree(kept.folder / "layers", ignore_errors=True)
            kept.clean()
        yield kept


def _driver(folder: Path) -> str:
    """Layers by overlay mounts, or by full copies where this file system cannot carry them: inside a container, say."""
    trial = folder / "trial"
    for part in ("lower", "upper", "work", "merged"):
        (trial / part).mkdir(parents=True, exist_ok=True)
    layers = f"lowerdir={trial / 'lower'},upperdir={trial / 'upper'},workdir={trial / 'work'}"
    mounted = works([*ISOLATED, "mount", "-t", "overlay", "-o", layers, "overlay", trial / "merged"])
    shutil.rmtree(trial)
    return "overlay" if mounted else "vfs"


def complaint(text: str) -> str:
    """What went wrong inside a step, without the command line and the text of the step, which fill a screen."""
    lines = re.sub(r"^`.*` exited with code \d+: ", "", text).splitlines()
    kept = [line for line in lines if not line.startswith(NOISE)] or lines
    return "\n".join(line[:LONGEST] for line in kept)


def isolated(command: Sequence[str], *, scratch: Path, env: Mapping[str, str] | None = None) -> str:
    """Run to the end in namespaces that die with this process, temporary files in `scratch`."""
    environment = {**os.environ, "TMPDIR": str(scratch), **(env or {})}
    return run([*ISOLATED, *command], env=environment, timeout=PATIENCE)
