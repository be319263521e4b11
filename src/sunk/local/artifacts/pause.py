"""The image of the container that holds a Pod's namespaces: one static binary, packed by hand.

Three small files in a tar; starting an image builder for them would take longer than all else in an `up`.
"""

import hashlib
import io
import tarfile
from pathlib import Path

import msgspec

from sunk.local.artifacts import cache

IMAGE = "localhost/sunk-pause:1"


def archive(binary: Path) -> Path:
    def pack(folder: Path) -> None:
        (folder / "pause.tar").write_bytes(image(binary.read_bytes(), name=IMAGE))

    return cache.entry("pause", pack, key=cache.key(files=[binary])) / "pause.tar"


def image(program: bytes, *, name: str) -> bytes:
    """An image archive with one program in it, which is also its entrypoint."""
    layer = _tar({"pause": program})
    config = msgspec.json.encode(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": ["/pause"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
    )
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    return _tar({"config.json": config, "layer.tar": layer, "manifest.json": msgspec.json.encode(manifest)})


def _tar(files: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o755
            archive.addfile(entry, io.BytesIO(data))
    return content.getvalue()
