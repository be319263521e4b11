"""Values as a page for people: every path, what may stand there, its default, and what it means.

What comes up in many places (an image, resources) is told where it comes first; elsewhere a row says "as there", and
what is different about its default.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import UNSET, Struct, json

from sunk.model.schema.reading import read
from sunk.model.schema.shape import Anything, IntOrStr, List, Map, Object, Property, Scalar, Shape

LONGEST: Final = 48
"""Of a default; longer ones stand in values.yaml."""
_PLURALS: Final = {"string": "strings", "integer": "numbers", "number": "numbers", "boolean": "booleans"}
_EMPTY: Final[tuple[object, ...]] = (UNSET, None, "", {}, [])
_HEAD: Final = ("| value | type | default | |", "| --- | --- | --- | --- |")


class Row(Struct, frozen=True):
    path: str
    kind: str
    default: str
    told: str

    def __str__(self) -> str:
        cells = (f"`{self.path}`", self.kind, self.default, self.told)
        return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def section(kind: type[Struct], *, title: str) -> str:
    """All values of a struct, a table for each of its members that has members itself."""
    root, told = read(kind), Described()
    single = [each for each in root.members if not isinstance(each.shape, Object)]
    parts = [f"## {title}"]
    if single:
        parts.append(_table(row for each in single for row in told.rows(each, path="", outer=UNSET)))
    for each in root.members:
        if isinstance(each.shape, Object):
            rows = told.rows(each, path="", outer=UNSET)
            parts += [f"### {each.name}", each.shape.description, _table(rows)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _table(rows: Iterator[Row]) -> str:
    return "\n".join((*_HEAD, *map(str, rows)))


class Described:
    """What has been told already, by the names of its members."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, ...], str] = {}

    def rows(self, member: Property, *, path: str, outer: Any) -> Iterator[Row]:
        """A member and all that it holds. `outer` is its value in a default of what it stands in."""
        place = f"{path}.{member.name}" if path else member.name
        default = member.default if outer is UNSET else outer
        suffix, inner = _inside(member.shape)
        if inner is None:
            yield Row(place, _kind(member.shape), _shown(default, required=member.required), _words(member.shape))
            return
        names = tuple(each.name for each in inner.members)
        first = self._places.setdefault(names, place + suffix)
        if first != place + suffix and len(names) > 1:
            told = f"Same fields as `{first}`. {_words(member.shape)}".strip()
            yield Row(place, _kind(member.shape), _shown(default, required=member.required), told)
            return
        if suffix:
            yield Row(place, _kind(member.shape), _shown(default, required=member.required), _words(member.shape))
        elif path and (told := _words(member.shape)):
            yield Row(place, "map", "", told)
        for each in inner.members:
            known = default.get(each.name, UNSET) if not suffix and isinstance(default, Mapping) else UNSET
            yield from self.rows(each, path=place + suffix, outer=known)


def _inside(shape: Shape) -> tuple[str, Object | None]:
    """The struct that a value is or holds, and how a path goes on into it."""
    match shape:
        case Object():
            return "", shape
        case Map(values=Object() as inner):
            return ".<name>", inner
        case List(items=Object() as inner):
            return "[]", inner
    return "", None


def _kind(shape: Shape) -> str:
    match shape:
        case Scalar():
            return _single(shape)
        case IntOrStr():
            return "number or string"
        case List(items=items):
            return f"list of {_several(items)}"
        case Map(values=values) if not isinstance(values, Anything):
            return f"map of {_several(values)}"
    return "anything" if isinstance(shape, Anything) and not shape.only_objects else "map"


def _single(shape: Scalar) -> str:
    if shape.choices:
        return ", ".join(f"`{each}`" if each != "" else "empty" for each in shape.choices)
    if shape.type == "boolean":
        return "`true`, `false`"
    return "string" if shape.type == "string" else f"number{_range(shape)}"


def _several(shape: Shape) -> str:
    if isinstance(shape, IntOrStr):
        return "numbers or strings"
    return _PLURALS[shape.type] if isinstance(shape, Scalar) else "maps"


def _range(shape: Scalar) -> str:
    least = shape.words.get("minimum", shape.above)
    most = shape.words.get("maximum", shape.below)
    if least is None and most is None:
        return ""
    if most is None:
        return f", at least {least}" if shape.above is None else f", above {least}"
    return f", {least} to {most}" if least is not None else f", at most {most}"


def _words(shape: Shape) -> str:
    """What is said of a value. A rule of a single one says what its description says, in the words of an error."""
    rules = [_sentence(str(each.get("message", ""))) for each in shape.rules]
    told = (shape.description, *rules) if isinstance(shape, Object) or not shape.description else (shape.description,)
    return " ".join(" ".join(text.split()) for text in told if text)


def _sentence(text: str) -> str:
    return f"{text}." if text and not text.endswith(".") else text


def _shown(default: Any, *, required: bool) -> str:
    if required:
        return "required"
    said = _said(default)
    if said in _EMPTY:
        return ""
    text = said if isinstance(said, str) else json.encode(said).decode()
    line = text.strip()
    return f"`{line}`" if "\n" not in line and len(line) <= LONGEST else "in values.yaml"


def _said(default: Any) -> Any:
    """Without the members that are empty: some defaults have to be written whole."""
    if isinstance(default, Mapping):
        return {name: value for name, value in default.items() if value not in _EMPTY}
    return default
