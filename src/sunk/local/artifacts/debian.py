"""A minimal Debian of a given release, as an archive of files: what a registry would call debian:<release>-slim.

It is made by mmdebstrap from the package mirror that this machine's own apt uses, so no image registry need be in
reach and no mirror is named here. Security updates come along, from where this machine gets its own, and stay among
the sources inside: packages that an image adds later are the mended ones too.
"""

import platform
import re
from pathlib import Path

from sunk.local.artifacts import cache
from sunk.local.artifacts.buildah import isolated
from sunk.local.progress import step
from sunk.local.shell import run
from sunk.model.refusal import Refusal

# What the slim image of a registry leaves out too. These settings stay inside and hold for packages added later.
DPKG = (
    "force-unsafe-io",
    *(f"path-exclude=/usr/share/{name}/*" for name in ("doc", "info", "lintian", "locale", "man")),
    "path-include=/usr/share/doc/*/copyright",
)
APT = ('Acquire::Languages "none"', 'APT::Install-Recommends "false"')
# Debian's "testing" says until when its lists hold, and a mirror may be days late.
UNTIMELY = {"forky": ('Acquire::Check-Valid-Until "false"',)}
# mmdebstrap copies this machine's name and name servers along.
SECURITY = "-security"
STRIP = 'rm -f "$1/etc/hostname" "$1/etc/resolv.conf"'


def key(suite: str) -> str:
    """Changes when the archive would be made differently, not when the mirror has newer packages."""
    return cache.key(values=[*_options(suite), suite, f"{suite}{SECURITY}"])


def archive(suite: str) -> Path:
    """Give the archive, made now if the cache lacks it."""

    def make(folder: Path) -> None:
        with step(f"Create a Debian {suite} to build images on"):
            command = ["mmdebstrap", *_options(suite), suite, str(folder / "files.tar"), *sources(suite)]
            isolated(command, scratch=folder)

    return cache.entry(f"debian-{suite}", make, key=key(suite)) / "files.tar"


def sources(suite: str) -> list[str]:
    """Where packages of a release come from: lines of sources.list, which stay in the image."""
    codename = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    uris = run(["apt-get", "update", "--print-uris"])
    return [f"deb {_mirror(uris, codename, kind)} {suite}{kind} main" for kind in ("", SECURITY)]


def _mirror(uris: str, codename: str, kind: str) -> str:
    """The address from which this machine gets its own Debian packages of that kind."""
    found = pick_mirror(uris, codename=f"{codename}{kind}")
    if found is None:
        raise Refusal(
            f"apt on this machine has no mirror for Debian {codename}{kind}, which the images need. "
            f"Add it to /etc/apt/sources.list.d, as a line of type deb with the suite {codename}{kind}."
        )
    return found


def pick_mirror(uris: str, *, codename: str) -> str | None:
    found = re.search(rf"^'(https?://\S+)/dists/{re.escape(codename)}/(?:InRelease|Release)'", uris, re.MULTILINE)
    return found.group(1) if found else None


def _options(suite: str) -> list[str]:
    return [
        "--variant=minbase",
        f"--customize-hook={STRIP}",
        *(f"--dpkgopt={option}" for option in DPKG),
        *(f"--aptopt={option}" for option in (*APT, *UNTIMELY.get(suite, ()))),
    ]
