"""Hostlists: many node names in a short text, such as `gpu[001-064],login1`, read and written exactly as Slurm does.

Slurm itself is not needed for it, so the operator and the command line can speak of nodes where no libslurm is. Every
rule here was found by asking `scontrol show hostnames`, `hostlist` and `hostlistsorted` of 24.11 and 26.05, and an
integration test asks them again with random lists. What one would not guess:

- Only the digits at the end of a name are a number. `r1n1,r2n1` does not become `r[1-2]n1`, and `a1b,a2b` stays as it
  is, though Slurm reads brackets in any place.
- The width of a range is that of its first number: `a[01-3]` is a01, a02, a03 and `a[1-03]` is a1, a2, a3.
- Numbers that follow each other share a range only if one width writes both: `a09,a10`, `a99,a100`, not `a1,a02`.
- Order and duplicates are kept. Only neighbours are joined: `a3,a1,a2` is `a[3,1-2]`, `a1,b1,a2` is as long as before.
- In sorted lists digits inside of names count as numbers (r9n1 before r10n1), except that a run that starts with zero
  is compared like a fraction; at the end of a name fewer digits come first (a3 before a01). Ranges made by joining
  neighbours stay together there, so that mixed widths may sort in another way when they stood in another order.
- With three bracket groups or more the order of the names is odd: the last group runs fastest, then the first, the
  second and so on.

What Slurm does by accident we refuse: brackets that do not match (it takes `a]`), `a[1-]` and `a[+1]`, which it reads
as something; braces, which 26.05 asks slurmctld to expand; numbers beyond 64 bits, which it replaces by the largest, or
never comes back (`a[99999999999999999999]b`). Joining, it writes ranges of more than 65,536 names, which it then does
not read; we write two. Its sorted lists lose names when numbers are further apart than 32 bits; ours do not.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby, product
from math import prod
from operator import attrgetter
from typing import Final, NamedTuple

MAX_RANGE: Final = 65_536
"""Names that one range may stand for; Slurm refuses more."""
MAX_NAMES: Final = 1_048_576
"""Names that one text may stand for. Slurm has no such bound, and a few bracket groups would take all memory."""

_DIGITS: Final = "0123456789"
_LARGEST: Final = 2**64 - 1
_SAFE_DIGITS: Final = 19
_LONGEST_NUMBER: Final = 256
_SEPARATORS: Final = "\t\n ,"
_FORBIDDEN: Final = re.compile(r"[\t\n\r ,\[\]{}]")
_SPECIAL: Final = re.compile(r"[\[\]{}\r]")
_PIECE: Final = re.compile(r"(?P<gap>[\t\n ,]+)|(?P<word>(?:[^\t\n\r ,\[\]{}]+|\[[^\[\]]*\])+)")
_GROUP: Final = re.compile(r"\[([^\[\]]*)\]")
_SPAN: Final = re.compile(r"([0-9]+)-([0-9]+)")
_RUN_OF_DIGITS: Final = re.compile(r"[0-9]+|[^0-9]", re.DOTALL)


class _Run(NamedTuple):
    """Neighbours `prefix + number` that differ by one each; a name without a number has a width of zero."""

    prefix: str
    low: int
    high: int
    width: int


# Reading


def expand(text: str) -> tuple[str, ...]:
    """Give the names that a hostlist stands for, in Slurm's order. A malformed one is a ValueError that says where."""
    if _SPECIAL.search(text) is None:
        names = text.translate({ord(each): "," for each in _SEPARATORS}).split(",")
        return tuple(_readable(name) for name in names if name)
    found: list[str] = []
    for start, word in _words(text):
        groups = tuple(_numbers(each, text=text, start=start) for each in _GROUP.finditer(word))
        if len(found) + prod(map(len, groups)) > MAX_NAMES:
            raise _malformed(text, start, f"stands for more than {MAX_NAMES} names with {word!r}")
        found += _combine(_GROUP.split(word)[::2], groups)
    return tuple(_readable(name) for name in found)


def _words(text: str) -> Iterator[tuple[int, str]]:
    position = 0
    for piece in _PIECE.finditer(text):
        if piece.start() != position:
            break
        position = piece.end()
        if piece["word"]:
            yield piece.start(), piece["word"]
    if position != len(text):
        raise _malformed(text, position, f"has {text[position]!r} instead of a name, a comma or a range in brackets")


def _numbers(group: re.Match[str], *, text: str, start: int) -> list[str]:
    """Spell out what stands between two brackets."""
    place, found = start + group.start() + 1, list[str]()
    for each in group[1].split(","):
        if each.isdecimal() and each.isascii():
            found.append(each)
            place += len(each) + 1
            continue
        span = _SPAN.fullmatch(each)
        if span is None:
            raise _malformed(text, place, f"has {each!r} instead of a number or a range such as 1-3")
        if len(each) > 2 * _LONGEST_NUMBER:
            raise _malformed(text, place, "has a range with a number beyond 64 bits")
        low, high = int(span[1]), int(span[2])
        if low > high:
            raise _malformed(text, place, f"has a range that runs backwards, {each!r}")
        if high - low >= MAX_RANGE or len(found) >= MAX_NAMES:
            raise _malformed(text, place, f"has a range of more than {MAX_RANGE} names, {each!r}")
        width = len(span[1])
        found += [f"{number:0{width}d}" for number in range(low, high + 1)]
        place += len(each) + 1
    return found


def _combine(literals: list[str], groups: tuple[list[str], ...]) -> Iterator[str]:
    if len(groups) <= 1:
        after = literals[-1] if groups else ""
        yield from (f"{literals[0]}{number}{after}" for number in (groups[0] if groups else ("",)))
        return
    *others, last = groups
    form = "%s".join(literal.replace("%", "%%") for literal in literals)
    for *turned, final in product(*reversed(others), last):
        yield form % (*reversed(turned), final)


def _readable(name: str) -> str:
    if len(name) > _SAFE_DIGITS and _is_too_large(name[len(name.rstrip(_DIGITS)) :]):
        raise ValueError(f"{name!r} ends in a number beyond 64 bits, which Slurm would misread")
    return name


def _is_too_large(digits: str) -> bool:
    if len(digits) > _LONGEST_NUMBER:  # Python refuses to read one of thousands of digits, zeros or not
        return True
    return len(digits) > _SAFE_DIGITS and int(digits) >= _LARGEST


def _malformed(text: str, position: int, found: str) -> ValueError:
    shown = text if len(text) <= 200 else f"{text[:200]}…"  # noqa: PLR2004 - enough to find it in a log
    return ValueError(f"the hostlist {shown!r} {found}, at character {position + 1}")


# Writing


def compress(names: Iterable[str], *, sort: bool = False) -> str:
    """Write names as a hostlist, in their order or in Slurm's; duplicates stay. What is no name is a ValueError."""
    runs = list(_joined(map(_run, _checked(list(names)))))
    if sort:
        runs = list(_joined(_untangled(sorted(runs, key=_Order()))))
    return ",".join(_written(prefix, list(group)) for prefix, group in groupby(runs, key=_bracket))


def shown(names: Iterable[str]) -> str:
    """Names for a log or a message: as a hostlist, or as they are where one of them is no name that Slurm could have."""
    found = list(names)
    try:
        return compress(found)
    except ValueError:
        return ",".join(found)


def _checked(names: list[str]) -> list[str]:
    if "" in names or _FORBIDDEN.search("".join(names)):  # at once, since one by one it would take as long as the rest
        wrong = next(name for name in names if not name or _FORBIDDEN.search(name))
        raise ValueError(f"{wrong!r} is not a node name: names have no blanks, commas, brackets or braces")
    return names


def _run(name: str) -> _Run:
    if len(name) > _SAFE_DIGITS:
        _readable(name)
    prefix = name.rstrip(_DIGITS)
    width = len(name) - len(prefix)
    number = int(name[-width:]) if width else 0
    return _Run(prefix, number, number, width)


def _joined(runs: Iterable[_Run]) -> Iterator[_Run]:
    """Join neighbours."""
    first = last = None
    for run in runs:
        if first is None or last is None:
            first = last = run
        elif run.low == last.high + 1 and _follows(first, run):
            last = run
        else:
            yield _Run(first.prefix, first.low, last.high, first.width)
            first = last = run
    if first is not None and last is not None:
        yield _Run(first.prefix, first.low, last.high, first.width)


def _follows(first: _Run, run: _Run) -> bool:
    return run.prefix == first.prefix and run.high - first.low < MAX_RANGE and _share_a_width(first, run)


def _share_a_width(one: _Run, other: _Run) -> bool:
    """Whether one way of padding writes both first numbers. A name without a number shares with none."""
    if one.width == other.width or not one.width or not other.width:
        return one.width == other.width and one.width > 0
    return any(len(str(run.low)) >= max(one.width, other.width) for run in (one, other))


def _bracket(run: _Run) -> tuple[str, bool]:
    return run.prefix, run.width > 0


def _written(shared: tuple[str, bool], runs: list[_Run]) -> str:
    prefix, numbered = shared
    if not numbered:
        return ",".join([prefix] * len(runs))
    spans = ",".join(map(_span, runs))
    return f"{prefix}[{spans}]" if len(runs) > 1 or runs[0].low < runs[0].high else f"{prefix}{spans}"


def _span(run: _Run) -> str:
    low = f"{run.low:0{run.width}d}"
    return low if run.low == run.high else f"{low}-{run.high:0{run.width}d}"


# Sorting


class _Order:
    """The key by which Slurm sorts. Prefixes are few and their keys long, so each is made once."""

    def __init__(self) -> None:
        self._known: dict[str, list[tuple[int, int, str]]] = {}

    def __call__(self, run: _Run) -> tuple[list[tuple[int, int, str]], int, int]:
        prefix = self._known.get(run.prefix)
        if prefix is None:
            prefix = self._known[run.prefix] = [_weight(each) for each in _RUN_OF_DIGITS.findall(run.prefix)]
        return prefix, run.width, run.low


def _weight(piece: str) -> tuple[int, int, str]:
    if piece[0] not in _DIGITS:
        return ord(piece), 0, ""
    return ord("0"), 0 if piece[0] == "0" else len(piece), piece


def _untangled(runs: list[_Run]) -> Iterator[_Run]:
    """Pull runs apart that overlap, as Slurm does: `1-3,2-4` is told as `1-2,2-3,3-4`."""
    tangle: list[_Run] = []
    reach = 0
    for run in runs:
        if tangle and not (run.prefix == tangle[-1].prefix and run.low <= reach and _share_a_width(tangle[-1], run)):
            yield from _laid_out(tangle)
            tangle = []
        reach = max(reach, run.high) if tangle else run.high
        tangle.append(run)
    yield from _laid_out(tangle)


def _laid_out(tangle: list[_Run]) -> Iterator[_Run]:
    if len(tangle) <= 1:
        yield from tangle
        return
    single = (run._replace(low=number, high=number) for run in tangle for number in range(run.low, run.high + 1))
    yield from sorted(single, key=attrgetter("low"))
