"""Lines as in sssd.conf: sections in brackets, `option = value`, comments at the beginning of a line.

Read by hand and not by configparser, whose errors quote the line: it may hold a password. A line that begins with a space
continues the one before, as in sssd.
"""

import re
from typing import Final

from msgspec import Struct

from sunk.directory.failure import Failure
from sunk.model.contract.people import INVALID

_SECTION: Final = re.compile(r"\[\s*([^\[\]]+?)\s*\]")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_DOMAIN: Final = "domain/"
_GENERAL: Final = {"sssd": frozenset({"domains", "services", "config_file_version", "debug_level"})}
"""What a whole sssd.conf has beside its domains, and which means nothing here."""


class Line(Struct, frozen=True):
    """An option as it was written, and where."""

    section: str
    name: str
    value: str
    number: int


def parse(text: str, *, source: str) -> list[Line]:
    """Take the text apart. `source` says which option to blame, as `sunk.directory.domain.settings` knows it."""
    section, found = "", list[Line]()
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", ";")):
            continue
        if line[0].isspace() and found:
            last = found[-1]
            found[-1] = Line(last.section, last.name, f"{last.value} {stripped}".strip(), last.number)
        elif header := _SECTION.fullmatch(stripped):
            section = header[1]
        else:
            found.append(_option(stripped, section=section, number=number, source=source))
    return found


def _option(line: str, *, section: str, number: int, source: str) -> Line:
    name, equals, value = line.partition("=")
    if not equals or not _NAME.fullmatch(name.strip()):
        raise Failure(INVALID, f"line {number} is not of the form `option = value`", option=source)
    if any(not each.isprintable() for each in value.strip()):
        raise Failure(INVALID, f"the value in line {number} has characters that cannot be printed", option=source)
    return Line(section, name.strip().lower(), value.strip(), number)


def of_domain(lines: list[Line], *, name: str, source: str, needs_section: bool) -> list[Line]:
    """Those of this directory. Other domains of a shared Secret are theirs; anything else would have no effect, unsaid."""
    own, wanted = list[Line](), f"{_DOMAIN}{name}"
    for line in lines:
        if line.section == wanted or (not line.section and not needs_section):
            own.append(line)
        elif not line.section:
            words = f"line {line.number} is in no section: write [{wanted}] above it"
            raise Failure(INVALID, words, option=source)
        elif not line.section.startswith(_DOMAIN) and line.name not in _GENERAL.get(line.section, ()):
            words = f"`{line.name}` in section [{line.section}] has no effect here: remove it"
            raise Failure(INVALID, words, option=source)
    if needs_section and not own:
        there = sorted({line.section for line in lines}) or ["none"]
        words = f"there is no section [{wanted}] with an option in it, only {', '.join(f'[{each}]' for each in there)[:200]}"
        raise Failure(INVALID, words, option=source)
    return own
