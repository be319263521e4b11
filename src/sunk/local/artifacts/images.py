"""The container images of SUNK: built here from `images/Containerfile`, kept by what they were built from.

The Containerfile is one that any builder takes. What is particular to this machine lies around it: the base is made
here, and a build sees a copy of exactly those files that the image's key was computed from. So key and content cannot
disagree, and a stray file in the clone changes nothing. A change of our Python sources leads to a new image in a few
seconds, because the layers below are kept in the storage.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sunk.local import paths
from sunk.local.artifacts import cache, debian
from sunk.local.artifacts.buildah import Build, Storage, storage
from sunk.local.progress import step
from sunk.model.refusal import Refusal

# Debian's release decides the Slurm version.
SUITES = {"24.11": "trixie", "26.05": "forky"}
DEFAULT = "24.11"

CONTAINERFILE = "images/Containerfile"
# What changes most often comes last, see `seed`.
SOURCES = {
    "directory": ("images/directory",),
    "mariadb": ("images/mariadb",),
    "slurm": ("images/fetch", "images/native", "images/slurm"),
    "sunk": ("LICENSE", "README.md", "pyproject.toml", "requirements/run.txt", "src"),
}
LEFT_OUT = ("src/sunk/local/artifacts/go", "__pycache__")
# A stage that only lends files to an image needs a name too, else it would be forgotten and rebuilt each time.
LENDERS = {"slurm": ("native",), "sunk": ("dependencies",)}

SPACE = 3 << 30
EPOCH = 1_000_000_000
AUTHORITIES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
SYSTEM_AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"


def build(*, slurm: str = DEFAULT) -> tuple[Path, ...]:
    """Give the archives of all images for one Slurm version, building what the cache lacks."""
    return tuple(archive(name, slurm=slurm) for name in SOURCES)


def reference(image: str, *, slurm: str = DEFAULT) -> str:
    """What a Pod names it by."""
    return f"localhost/{image}:{slurm}"


def archive(image: str, *, slurm: str = DEFAULT) -> Path:
    """Give an OCI archive of the image."""
    suite = _suite(slurm)
    key = cache.key(values=(debian.key(suite),), files=sources(image), root=paths.project())

    def make(folder: Path) -> None:
        base = debian.archive(suite)
        with step(f"Build the image {image} (Slurm {slurm})"), storage() as kept:
            context = _context(image, kept=kept)
            if key != cache.key(values=(debian.key(suite),), files=_files(context), root=context):
                raise Refusal(f"a source of the image {image} changed while it was being built. Repeat the command.")
            _build(image, slurm=slurm, base=_base(base, suite=suite, kept=kept), kept=kept, context=context)
            kept.export(reference(image, slurm=slurm), archive=folder / "image.tar")
            kept.prune()

    return cache.entry(f"image-{image}-{slurm}", make, key=key, needs=SPACE) / "image.tar"


def root_file_system(image: str, *, slurm: str = DEFAULT) -> Path:
    """Give the image's files as a folder to chroot into. It is shared: lay something writable over it, never write."""
    packed = archive(image, slurm=slurm)

    def unpack(folder: Path) -> None:
        (folder / "root").mkdir()
        with step(f"Unpack the image {image} (Slurm {slurm})"), storage() as kept:
            kept.unpack(packed, folder=folder / "root")

    key = packed.parent.name.rpartition("-")[2]
    return cache.entry(f"files-{image}-{slurm}", unpack, key=key, needs=SPACE) / "root"


def sources(image: str) -> list[Path]:
    """Every file that the image is made from."""
    if image not in SOURCES:
        raise Refusal(f"no image {image}. Images built here: {', '.join(SOURCES)}.")
    project = paths.project()
    found = {file for name in (CONTAINERFILE, *SOURCES[image]) for file in _files(project / name)}
    return sorted(file for file in found if not _left_out(file.relative_to(project)))


def stage(files: Iterable[Path], *, folder: Path, root: Path) -> None:
    """Copy files to where a build reads them. One time and two modes for all, so that equal content is equal."""
    for file in files:
        copy = folder / file.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
        copy.chmod(0o755 if os.access(file, os.X_OK) else 0o644)
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)
        os.utime(path, (EPOCH, EPOCH))


def _suite(slurm: str) -> str:
    if slurm not in SUITES:
        raise Refusal(f"no known Debian release has Slurm {slurm}. Choose one of: {', '.join(SUITES)}.")
    return SUITES[slurm]


def _files(path: Path) -> Iterator[Path]:
    if not path.exists():
        raise Refusal(f"{path} is missing but needed for an image. Restore it from version control.")
    return (file for file in (path, *path.rglob("*")) if file.is_file())


def _left_out(file: Path) -> bool:
    return any(file.is_relative_to(name) or name in file.parts for name in LEFT_OUT)


def _base(files: Path, *, suite: str, kept: Storage) -> str:
    """Put the Debian base into the storage, under a name for FROM that says what it was made of."""
    name = f"localhost/debian:{suite}-{debian.key(suite)}"
    if not kept.has(name):
        containerfile = kept.scratch / "base"
        containerfile.write_text(f'FROM scratch\nADD {files.name} /\nCMD ["bash"]\n')
        kept.build(Build(containerfile=containerfile, context=files.parent, name=name))
    return name


def _context(image: str, *, kept: Storage) -> Path:
    context = kept.scratch / "context"
    stage(sources(image), folder=context, root=paths.project())
    return context


def _build(image: str, *, slurm: str, base: str, kept: Storage, context: Path) -> None:
    names = {target: reference(f"{image}-{target}", slurm=slurm) for target in LENDERS.get(image, ())}
    for target, name in {**names, image: reference(image, slurm=slurm)}.items():
        wanted = Build(
            containerfile=context / CONTAINERFILE,
            context=context,
            name=name,
            target=target,
            arguments={"SUITE": _suite(slurm), "BASE": base},
            secrets=secrets(kept.scratch),
        )
        with _explained(f"the image {image} for Slurm {slurm}"):
            kept.build(wanted)


def secrets(folder: Path) -> dict[str, Path]:
    """What pip needs to reach this machine's package registry, for the build step that runs it and no layer."""
    found = {}
    authorities = [os.environ[name] for name in AUTHORITIES if os.environ.get(name)]
    if bundle := next((path for path in (*authorities, SYSTEM_AUTHORITIES) if Path(path).is_file()), None):
        found["ca"] = Path(bundle)
    if index := os.environ.get("PIP_INDEX_URL"):
        found["pip"] = folder / "pip.conf"
        found["pip"].write_text(f"[global]\nindex-url = {index}\n")
    return found


@contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        yield
    except Refusal as refusal:
        raise Refusal(
            f"{what} was not built. {refusal}\nFix the cause and repeat the command: completed steps are kept."
        ) from refusal
