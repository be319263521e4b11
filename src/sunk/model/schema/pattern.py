r"""Regular expressions that mean the same to Python, to the API server and to an editor.

A pattern is held against a value three times: by msgspec (Python's `re`), by the API server and Helm (Go's RE2) and by
editors (ECMAScript). What they read differently is refused here instead of found out later. The worst of it is the
end: Python's `$` also matches before a last newline, and a newline that slips into a value ends up as a line of its
own in slurm.conf. So a pattern ends with Python's `\Z` (`END`), which is written as `$` where it is said to others.
"""

import re
from typing import Final

END: Final = r"\Z"

_PIECE: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?.|[*+?}][+]|.", re.DOTALL)
_CLASSES: Final = re.compile(r"\\[dDwWsSbBAz]")
_ADVICE: Final = {
    "$": rf"Python's also matches before a last newline: write {END}",
    "(?": "RE2 looks neither ahead nor behind, and names groups otherwise: use plain groups or (?:…)",
    "+": "RE2 has no possessive repetition: leave the second + out",
    "class": "Python means all of Unicode by it and RE2 means ASCII: write the characters out, as in [0-9]",
    "back": "RE2 knows no back references",
}


def differs(pattern: str) -> str:
    """Say what in the pattern others would read differently; empty if they all agree."""
    for piece in _PIECE.findall(pattern):
        if trouble := _trouble(piece):
            return f'"{piece}" in the pattern "{pattern}": {_ADVICE[trouble]}'
    return ""


def _trouble(piece: str) -> str:
    if piece == "$":
        return "$"
    if piece.startswith("(?"):
        return "" if piece == "(?:" else "(?"
    if len(piece) == len("++") and piece[1] == "+" and piece[0] in "*+?}":
        return "+"
    if piece != END and _CLASSES.search(piece):
        return "class"
    return "back" if re.fullmatch(r"\\[1-9]", piece) else ""


def portable(pattern: str) -> str:
    """The pattern as the others write it."""
    return "".join("$" if piece == END else piece for piece in _PIECE.findall(pattern))
