"""What a cluster starts with: the programs it is made of, and the images its nodes hold."""

from pathlib import Path

import msgspec

from sunk.local import parts, pause
from sunk.local.parts import Parts
from sunk.model.refusal import Refusal


class Stock(msgspec.Struct, frozen=True):
    """Everything built, on this machine."""

    parts: Parts
    images: tuple[str, ...]
    """Paths of image archives. They lie in the cache, so a path names one content for ever."""


def fill(*, images: bool = True) -> Stock:
    """Build what the cache lacks."""
    made = parts.build()
    return Stock(parts=made, images=(str(pause.archive(made.pause)),) if images else ())


def archive(image: str) -> Path:
    """An archive of an image that is named by path, or by the name of one that is built here."""
    if Path(image).is_file():
        return Path(image)
    raise Refusal(f"there is no image archive {image}.")
