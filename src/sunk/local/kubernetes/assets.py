"""What a cluster starts with: the programs it is made of, and the images its nodes hold."""

from pathlib import Path

import msgspec

from sunk.local.artifacts import images as builder, parts, pause
from sunk.local.artifacts.parts import Parts
from sunk.model.refusal import Refusal


class Assets(msgspec.Struct, frozen=True):
    """Everything built, on this machine."""

    parts: Parts
    images: tuple[str, ...]
    """Paths of image archives. They lie in the cache, so a path names one content for ever."""


def fill(*, images: bool = True) -> Assets:
    """Build what the cache lacks. What changes most often comes last, see `seed`."""
    made = parts.build()
    archives = (pause.archive(made.pause), *builder.build()) if images else ()
    return Assets(parts=made, images=tuple(map(str, archives)))


def archive(image: str) -> Path:
    """An archive of an image that is named by path, or by the name of one that is built here."""
    if Path(image).is_file():
        return Path(image)
    names = {
        builder.reference(name, slurm=slurm): (name, slurm) for name in builder.SOURCES for slurm in builder.SUITES
    }
    if image not in names:
        raise Refusal(
            f"no image archive {image}. Give the path of one, or the name of an image built here: {', '.join(names)}."
        )
    name, slurm = names[image]
    return builder.archive(name, slurm=slurm)
