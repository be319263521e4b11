"""Lines of Slurm's configuration files, and what must not get into one.

Slurm reads pairs of `Key=Value`, one on a line, or several where they describe one thing; a line that begins with
`Include` reads another file; a backslash at the end joins the next line; `#` begins a comment. So a value with a blank
brings another key in, one with a newline a whole line, and one that ends with a backslash swallows the line behind it.
Values are therefore held against a short list of what they may have, and texts that people own are read the way Slurm
reads them before anything in them is looked for.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from sunk.model.refusal import Refusal

_WORD: Final = re.compile(r"[^\s\x00-\x1f\x7f#\\\"']*")
_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_KEYS: Final = re.compile(r"(?:^|\s)([A-Za-z][A-Za-z0-9_]*)\s*[-+*/]?=")
_VALUES: Final = re.compile(r"(?:^|\s)([A-Za-z][A-Za-z0-9_]*)\s*[-+*/]?=\s*(\"[^\"]*\"|\S*)")
_QUOTED: Final = re.compile(r"\"[^\"]*\"|'[^']*'")
_COMMENT: Final = re.compile(r"(?<!\\)((?:\\\\)*)#.*")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_INCLUDE: Final = re.compile(r"\s*include\b", re.IGNORECASE)


def word(value: str | int, *, at: str) -> str:
    """A value that stays one value."""
    text = str(value)
    if not _WORD.fullmatch(text):
        raise Refusal(
            f"{at}: {text!r} would start another setting or line of the Slurm configuration. Leave out blanks, "
            "quotes, line breaks, backslashes and #."
        )
    return text


def pairs(settings: Mapping[str, str | int], *, at: str = "") -> Iterator[str]:
    """`Key=Value` for each; `at` is the path of a map whose keys people have written too."""
    for key, value in settings.items():
        if not _KEY.fullmatch(key):
            raise Refusal(f"{at}: {key!r} is not a Slurm setting: names consist of letters and digits.")
        yield f"{key}={word(value, at=f'{at}.{key}' if at else key)}"


def owned(text: str, *, at: str, forbidden: Mapping[str, str] | None = None) -> list[str]:
    """The lines of a text that people own, as Slurm would read them: joined, and without comments.

    `forbidden` has settings that they must leave to us, in small letters, each with what to do instead.
    """
    lines = list(_joined(text, at=at))
    for line in lines:
        if _INCLUDE.match(line):
            raise Refusal(f"{at}: {line!r} would read a file inside the Pod. Put the lines here instead.")
        for key in keys(line):
            if advice := (forbidden or {}).get(key.lower()):
                raise Refusal(f"{at}: {key} cannot be set here: {advice}.")
    return lines


def keys(line: str) -> list[str]:
    """The settings that stand on a line."""
    return _KEYS.findall(_QUOTED.sub("", line))


def values(line: str) -> list[tuple[str, str]]:
    """The settings that stand on a line, with their values."""
    return [(key, value.strip('"')) for key, value in _VALUES.findall(line)]


def overridden(lines: Collection[str]) -> frozenset[str]:
    """The settings of all these lines, in small letters: Slurm does not tell large from small."""
    return frozenset(key.lower() for line in lines for key in keys(line))


def _joined(text: str, *, at: str) -> Iterator[str]:
    begun = ""
    for physical in text.replace("\r\n", "\n").split("\n"):
        if _CONTROL.search(physical):
            raise Refusal(f"{at}: {physical!r} contains a control character. Remove it.")
        line = begun + _COMMENT.sub(r"\1", physical).rstrip()
        begun = ""
        if (len(line) - len(line.rstrip("\\"))) % 2:
            begun = line[:-1]
        elif line.strip():
            yield line.strip()
    if begun:
        raise Refusal(
            f"{at}: the last line ends with a backslash, which would swallow the line after it. Remove the backslash."
        )
