"""The container images of SUNK: built here from `images/Containerfile`, kept by what they were built from.

The Containerfile is one that any builder takes. What differs on this machine is below and around it: the Debian base
comes from the package mirror that this machine's own apt uses, since no image registry need be in reach, and the
build sees a copy of exactly those files that the image's key was computed from. So key and content cannot disagree,
and a stray file in the clone changes nothing.
"""

import os
import platform
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from sunk.local import cache, paths
from sunk.local.buildah import Build, Storage, isolated, storage
from sunk.local.progress import step
from sunk.local.shell import run
from sunk.model.refusal import Refusal

# Debian decides the Slurm version. «testing» has an expiry date that a mirror may miss by days.
SUITES = {"24.11": "trixie", "26.05": "forky"}
DEFAULT = "24.11"
UNTIMELY = {"forky": ('Acquire::Check-Valid-Until "false"',)}

IMAGES = ("slurm", "sunk")
SOURCES = {
    "slurm": ("images/slurm",),
    "sunk": ("LICENSE", "README.md", "pyproject.toml", "requirements/run.txt", "src"),
}
LEFT_OUT = ("src/sunk/local/kubernetes", "__pycache__")
CONTAINERFILE = "images/Containerfile"

# What the slim image of a registry leaves out too. The settings stay in the image and hold for later packages.
DPKG = (
    "force-unsafe-io",
    *(f"path-exclude=/usr/share/{name}/*" for name in ("doc", "info", "locale", "lintian", "man")),
    "path-include=/usr/share/doc/*/copyright",
)
APT = ('Acquire::Languages "none"', 'APT::Install-Recommends "false"')
# mmdebstrap takes this machine's name and name servers along.
STRIP = 'rm -f "$1/etc/hostname" "$1/etc/resolv.conf"'

SPACE = 3 << 30
KEPT = 3
EPOCH = 1_000_000_000
AUTHORITIES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
SYSTEM_AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"


def build(*, slurm: str = DEFAULT) -> tuple[Path, ...]:
    """Give the archives of all images for one Slurm version, building what the cache lacks."""
    return tuple(archive(name, slurm=slurm) for name in IMAGES)


def reference(image: str, *, slurm: str = DEFAULT) -> str:
    """What a Pod names it by."""
    return f"localhost/{image}:{slurm}"


def archive(image: str, *, slurm: str = DEFAULT) -> Path:
    """Give an OCI archive of the image."""
    files = sources(image)

    def produce(folder: Path) -> None:
        with step(f"Build the image {image} (Slurm {slurm})"), storage() as kept, _context(files) as context:
            _build(image, slurm=slurm, kept=kept, context=context)
            kept.export(reference(image, slurm=slurm), archive=folder / "image.tar")
            kept.prune()

    name = f"image-{image}-{slurm}"
    key = cache.key(values=(_base_key(_suite(slurm)),), files=files, root=paths.project())
    return _latest(name, key=key, build=produce) / "image.tar"


def root_file_system(image: str, *, slurm: str = DEFAULT) -> Path:
    """Give the image's files as a folder to chroot into. It is shared: lay something writable over it, never write."""
    packed = archive(image, slurm=slurm)

    def unpack(folder: Path) -> None:
        (folder / "root").mkdir()
        with step(f"Unpack the image {image} (Slurm {slurm})"), storage() as kept:
            kept.unpack(packed, folder=folder / "root")

    return _latest(f"files-{image}-{slurm}", key=packed.parent.name.rpartition("-")[2], build=unpack) / "root"


def sources(image: str) -> list[Path]:
    """Every file that the image is made from."""
    project = paths.project()
    found = {file for name in (CONTAINERFILE, *SOURCES[_known(image)]) for file in _files(project / name)}
    return sorted(file for file in found if not _left_out(file.relative_to(project)))


def _files(path: Path) -> Iterator[Path]:
    if not path.exists():
        raise Refusal(f"{path} is missing, and an image is made from it. Restore it from version control.")
    return (file for file in (path, *path.rglob("*")) if file.is_file())


def _left_out(file: Path) -> bool:
    return any(file.is_relative_to(name) or name in file.parts for name in LEFT_OUT)


def _known(image: str) -> str:
    if image not in IMAGES:
        raise Refusal(f"there is no image {image}. These are built here: {', '.join(IMAGES)}.")
    return image


def _suite(slurm: str) -> str:
    if slurm not in SUITES:
        raise Refusal(f"Slurm {slurm} is not one that Debian carries. Choose one of: {', '.join(SUITES)}.")
    return SUITES[slurm]


def _latest(name: str, *, key: str, build: Callable[[Path], None]) -> Path:
    """A cache entry; of its older kin only a few stay, because every change of our sources makes another."""
    folder = cache.entry(f"{name}-{key}", build, needs=SPACE)
    os.utime(folder)
    kin = sorted(folder.parent.glob(f"{name}-*"), key=lambda each: each.stat().st_mtime, reverse=True)
    for old in kin[KEPT:]:
        cache.discard(old)
    return folder


@contextmanager
def _context(files: list[Path]) -> Iterator[Path]:
    """Copy the files to a folder of their own. All get one time and one of two modes, so equal content is equal."""
    project = paths.project()
    with TemporaryDirectory(dir=paths.cache(), prefix=".context.") as name:
        for file in files:
            copy = Path(name) / file.relative_to(project)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
            copy.chmod(0o755 if os.access(file, os.X_OK) else 0o644)
        for path in (Path(name), *Path(name).rglob("*")):
            if path.is_dir():
                path.chmod(0o755)
            os.utime(path, (EPOCH, EPOCH))
        yield Path(name)


def _build(image: str, *, slurm: str, kept: Storage, context: Path) -> None:
    suite = _suite(slurm)
    base = _base(suite, kept=kept)
    stages = {"sunk": {"dependencies": f"localhost/sunk-dependencies:{slurm}"}}.get(image, {})
    with _secrets(context) as secrets:
        # A stage that only lends files to the image has a name of its own, else it would be forgotten as unused.
        for target, name in (*stages.items(), (image, reference(image, slurm=slurm))):
            wanted = Build(
                containerfile=context / CONTAINERFILE,
                context=context,
                name=name,
                target=target,
                arguments={"SUITE": suite, "BASE": base},
                secrets=secrets,
            )
            _explained(lambda wanted=wanted: kept.build(wanted), what=f"The image {image} for Slurm {slurm}")


def _explained(act: Callable[[], object], *, what: str) -> None:
    try:
        act()
    except Refusal as refusal:
        raise Refusal(
            f"{what} could not be built. {refusal}\n"
            "Once the cause is mended, repeat the command: the steps that went well are kept."
        ) from refusal
