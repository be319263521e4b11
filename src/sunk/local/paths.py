"""Where things lie on this machine: what is built once (the cache) and what a running cluster owns (its folder)."""

import os
from pathlib import Path

from sunk.model.refusal import Refusal

SOURCE = Path(__file__).resolve().parents[3]


def cache() -> Path:
    """Outside the clone, so that every clone of the project shares what was built for one of them."""
    if chosen := os.environ.get("SUNK_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sunk"


def clusters() -> Path:
    return Path(os.environ.get("SUNK_STATE") or "/var/lib/sunk/local")


def project() -> Path:
    """The clone this code runs from: Containerfiles and Go sources are built from there."""
    if not (SOURCE / "images").is_dir():
        raise Refusal(
            f"{SOURCE} has no images/ folder: `sunk local` builds its components from a clone of the project. "
            "Run it as .venv/bin/sunk inside one."
        )
    return SOURCE
