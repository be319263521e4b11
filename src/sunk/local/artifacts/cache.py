"""Things that take minutes to build, kept by what they were built from.

An entry is a folder named `<kind>-<hash of its inputs>`. It is built under another name and renamed when whole, so an
entry that exists is complete, whenever the builder was killed. A list of its files with their sizes is written last
and looked at on every use: a disk that was full, or a person who tidied up, shows there and not in a strange error
half a minute later. A lock per entry lets two clones build at once without doing the work twice.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from sunk.local import paths
from sunk.model.refusal import Refusal

MANIFEST = ".complete.json"
GIBIBYTE = 1 << 30
KEPT = 4


def key(*, values: Iterable[str] = (), files: Iterable[Path] = (), root: Path | None = None) -> str:
    """A short hash over values and over files with their modes, names counted relative to `root`."""
    digest = hashlib.sha256()
    for value in values:
        digest.update(value.encode() + b"\0")
    for file in sorted(files):
        name = file.relative_to(root) if root else Path(file.name)
        executable = os.access(file, os.X_OK)
        digest.update(f"{name} {executable}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def entry(kind: str, build: Callable[[Path], None], *, key: str, needs: int = GIBIBYTE) -> Path:
    """Give the folder of this kind and key, building it first where it is missing or damaged."""
    folder = paths.cache() / f"{kind}-{key}"
    if not intact(folder):
        with locked(folder.name):
            if not intact(folder):
                discard(folder)
                require_space(paths.cache(), needs=needs)
                _build(folder, build)
        _forget_oldest(folder.parent.glob(f"{kind}-{'?' * len(key)}"))
    os.utime(folder)
    return folder


def _forget_oldest(kin: Iterable[Path]) -> None:
    """Of entries that differ only in their inputs keep the last used: every change of a source makes another."""
    used: list[tuple[float, Path]] = []
    for each in kin:
        with suppress(FileNotFoundError):  # somebody else has forgotten it just now
            used.append((each.stat().st_mtime, each))
    for _, old in sorted(used, reverse=True)[KEPT:]:
        discard(old)


def intact(folder: Path) -> bool:
    try:
        sizes = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=dict[str, int])
        return all((folder / name).lstat().st_size == size for name, size in sizes.items())
    except (OSError, msgspec.DecodeError):
        return False


def discard(folder: Path) -> None:
    """Remove an entry, and what earlier builders of it left behind when they were killed."""
    for remains in (folder, *folder.parent.glob(f".{folder.name}.*")):
        shutil.rmtree(remains, ignore_errors=True)


def require_space(folder: Path, *, needs: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < needs:
        raise Refusal(
            f"{folder} has {free / GIBIBYTE:.1f} GiB free, but this step needs {needs / GIBIBYTE:.1f} GiB. "
            "Free some space, or set SUNK_CACHE to a folder on a larger disk."
        )


def _build(folder: Path, build: Callable[[Path], None]) -> None:
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    unfinished.chmod(0o755)
    try:
        build(unfinished)
        (unfinished / MANIFEST).write_bytes(msgspec.json.encode(dict(_sizes(unfinished))))
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _sizes(folder: Path) -> Iterator[tuple[str, int]]:
    # Two levels are enough to see a missing or cut-off product; walking a whole root file system would cost more
    # than the check is worth.
    for file in (*folder.glob("*"), *folder.glob("*/*")):
        if file.is_file() and not file.is_symlink():
            yield str(file.relative_to(folder)), file.stat().st_size


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Do something alone among all processes of this machine that name it so."""
    folder = paths.cache()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
