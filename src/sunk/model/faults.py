"""Faults that nobody foresaw: said with their place when they are new, counted, and survived.

A loop that ends by an exception that nobody listed ends the process, which starts and meets the same again. So every
loop goes on after any exception: what could not be done is named here until it succeeds, in the log once and in the
report for as long as it lasts.

    with survived("orphans"):
        await look()
"""

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

log = logging.getLogger(__name__)

MOST: Final = 200
"""Characters of a fault that are told."""
counts: Final[Counter[str]] = Counter()
"""Since the start of the process, by where it was."""
lasting: Final[dict[str, str]] = {}
"""Those that have not been followed by a success yet, by where."""


def words(fault: BaseException) -> str:
    """A fault in one line."""
    text = " ".join(str(fault).split())
    return f"{type(fault).__name__}: {text}"[:MOST] if text else type(fault).__name__


def note(where: str, fault: Exception) -> None:
    """Count a fault, and say it with its traceback unless it is the one that was said last."""
    counts[where] += 1
    told = words(fault)
    if lasting.get(where) != told:
        lasting[where] = told
        log.error("%s: unexpected error, continuing: %s", where, told, exc_info=fault)


def over(where: str) -> None:
    if lasting.pop(where, None) is not None:
        log.info("%s: works again", where)


@contextmanager
def survived(where: str) -> Iterator[None]:
    """Survive whatever is raised in the block, unless it is the end of the task."""
    try:
        yield
    except Exception as fault:  # noqa: BLE001 - that is what this is for
        note(where, fault)
    else:
        over(where)
