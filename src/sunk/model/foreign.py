"""JSON that others wrote: annotations, templates. It is read, or refused as one kind of error, however odd it is.

Besides what is no JSON there is what is nested too deep. msgspec gives up upon it with a RecursionError, which is none
of its own errors, at a depth that depends on the release of Python and on who calls; and what it still reads may be too
deep for what comes next. So there is a bound of our own, far beyond anything that makes sense.
"""

from typing import Any, Final, TypeVar

from msgspec import DecodeError, Raw, json

from sunk.model.refusal import Refusal

T = TypeVar("T")
DEEPEST: Final = 200
"""Objects and lists within each other."""


class UnreadableJson(Refusal):
    """The text cannot be read. The message says why."""


def decode(text: str | bytes | Raw, kind: type[T]) -> T:
    """Read a text into a type of ours; fields that it does not know are skipped."""
    try:
        return json.decode(text, type=kind)
    except RecursionError as error:
        raise UnreadableJson(_TOO_DEEP) from error
    except (DecodeError, UnicodeError) as error:
        raise UnreadableJson(str(error)) from error


def tree(text: str | bytes | Raw) -> Any:
    """Read a text as it is, if it is nested no deeper than can be worked with."""
    found = decode(text, Any)
    level: list[Any] = [found]
    for _ in range(DEEPEST):
        level = [inner for each in level for inner in _inner(each)]
        if not level:
            return found
    raise UnreadableJson(_TOO_DEEP)


def _inner(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


_TOO_DEEP: Final = f"it is nested too deeply: at most {DEEPEST} levels are allowed"
