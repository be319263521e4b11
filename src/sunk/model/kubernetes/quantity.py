"""Quantities: amounts as Kubernetes writes them, such as `8`, `500m`, `1.5Gi` or `12e6`, read into whole numbers.

Everything is counted in nano-units, the finest that Kubernetes knows, so that sums and comparisons are exact. The
rules are those of its own parser (`k8s.io/apimachinery/pkg/api/resource`). What one would not guess:

- What is finer than a nano-unit is rounded away from zero: whoever asks for some gets some.
- Blanks around it do not matter, and a digit may be missing on one side of the point: `.5` and `1.` are amounts.
- `E` is a suffix (exa) and `E3` an exponent; `k` is small, `K` alone is none.
- Amounts with a binary suffix end at 2⁶³−1 and are cut there.

Two things we refuse that it takes: texts without a number (it reads `m`, `+` and `e3` as zero), and more than 100
characters or an exponent beyond 100, which no machine has anything to do with and which would only cost us memory.
"""

import re
from functools import lru_cache
from typing import Final

from sunk.model.refusal import Refusal

ONE: Final = 10**9
"""One whole unit, such as a CPU, a byte or a device."""

Quantity = str | int | float
"""As it may stand in JSON: people also write plain numbers."""

_FORM: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?P<suffix>[numkMGTPE]|[KMGTPE]i|[eE](?P<exponent>[+-]?[0-9]{1,18}))?"
)
_TENS: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_TWOS: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_LARGEST_BINARY: Final = (2**63 - 1) * ONE
_LONGEST: Final = 100
_SHOWN: Final = 40


class NoQuantity(Refusal):
    """The text is no amount."""


@lru_cache(maxsize=16_384)  # Nodes of one kind say the same few texts
def amount(quantity: Quantity) -> int:
    """In nano-units: `500m` and 0.5 are 500,000,000. What is no quantity is refused as `NoQuantity`."""
    if isinstance(quantity, int):
        return quantity * ONE
    text = quantity.strip() if isinstance(quantity, str) else repr(quantity)
    found = _FORM.fullmatch(text)
    if found is None or len(text) > _LONGEST:
        raise _no_quantity(text)
    digits = found["whole"] + (found["part"] or "")
    if not digits:
        raise _no_quantity(text)
    size = _scaled(int(digits), places=len(found["part"] or ""), suffix=found["suffix"] or "", text=text)
    return -size if found["sign"] == "-" else size


def rendered(nanos: int) -> str:
    """A short text for so many nano-units, which reads as exactly as many: `64Gi`, `7500m`, `110`."""
    if nanos % ONE:
        return f"{nanos // 10**6}m" if nanos % 10**6 == 0 else f"{nanos}n"
    units = nanos // ONE
    for suffix, twos in reversed(_TWOS.items()):
        if units and units % (1 << twos) == 0 and abs(nanos) <= _LARGEST_BINARY:
            return f"{units >> twos}{suffix}"
    return str(units)


def _scaled(number: int, *, places: int, suffix: str, text: str) -> int:
    if suffix in _TWOS:
        return min(_divided_up(number * ONE << _TWOS[suffix], 10**places), _LARGEST_BINARY)
    tens = (_TENS[suffix] if suffix in _TENS else int(suffix[1:] or 0)) + 9 - places
    if tens > _LONGEST:
        raise _no_quantity(text)
    # Below the last digit nothing changes any more: it is one nano-unit, or none.
    return number * 10**tens if tens >= 0 else _divided_up(number, 10 ** min(-tens, 2 * _LONGEST))


def _divided_up(number: int, by: int) -> int:
    return -(-number // by)


def _no_quantity(text: str) -> NoQuantity:
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return NoQuantity(
        f"{shown!r} is not a quantity: write a number with or without a suffix, such as 8, 500m, 1.5Gi or 2e6."
    )
