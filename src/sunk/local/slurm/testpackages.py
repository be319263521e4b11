"""The packages with which tests run inside our own image: those of requirements/dev.txt that the image lacks.

They are installed for the image's Python, not for this machine's, because some are compiled; each is checked by its
hash like everywhere else.
"""

import re
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Final

from sunk.local import paths
from sunk.local.artifacts import cache, images
from sunk.local.progress import step
from sunk.local.shell import run
from sunk.model.refusal import Refusal

FOLDER: Final = "/opt/development"
# Large and of no use in a test; and looptime asks every test for an event loop in a way that Python 3.12 deprecated.
LEFT_OUT: Final = ("grimp", "import-linter", "looptime", "mypy", "ruff", "uv")
PATIENCE: Final = 600.0


def packages(slurm: str) -> Path:
    """Give the folder with the packages, for the Python of the image with this Slurm."""
    version = python_version(images.root_file_system("sunk", slurm=slurm))
    folder = paths.project() / "requirements"
    wanted = without((folder / "dev.txt").read_text(), names={*LEFT_OUT, *names((folder / "run.txt").read_text())})

    def install(target: Path) -> None:
        lock = target / "requirements.txt"
        lock.write_text(wanted)
        uv = Path(sys.executable).parent / "uv"
        options = ("--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:", f"--python-version={version}")
        with step(f"Install what tests need for Python {version}"):
            run([uv, "pip", "install", *options, "--target", target / "packages", "-r", lock], timeout=PATIENCE)

    key = cache.key(values=(wanted,))
    return cache.entry(f"development-{version}", install, key=key) / "packages"


def python_version(root: Path) -> str:
    found = next((root / "opt/sunk/lib").glob("python3.*"), None)
    if found is None:
        raise Refusal(f"{root} has no Python below /opt/sunk, where our image keeps it. Remove that folder and repeat.")
    return found.name.removeprefix("python")


def names(locked: str) -> set[str]:
    return set(re.findall(r"^([\w.-]+)==", locked, re.MULTILINE))


def without(locked: str, *, names: Collection[str]) -> str:
    """Locked requirements less those called by these names, with their hashes."""
    entries = re.split(r"^(?=[\w.-]+==)", locked, flags=re.MULTILINE)
    return "".join(each for each in entries if each.partition("==")[0] not in names)
