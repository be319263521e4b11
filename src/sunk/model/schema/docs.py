"""Descriptions out of source: the docstring of a class, and the string below a field.

Python keeps the first and forgets the second, so the source is read once more. Types that were made at run time have
none and stay without descriptions.
"""

import ast
import inspect
import re
import textwrap
from functools import cache
from itertools import pairwise


def of_class(kind: type) -> str:
    return _prose(kind.__doc__ or "")


@cache
def of_fields(kind: type) -> dict[str, str]:
    """Descriptions by the Python name of the field; those of a subclass win."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        found |= _own(base)
    return found


def _own(kind: type) -> dict[str, str]:
    try:
        source = textwrap.dedent(inspect.getsource(kind))
    except (OSError, TypeError):
        return {}
    match ast.parse(source).body:
        case [ast.ClassDef(body=body)]:
            pairs = (_described(*two) for two in pairwise(body))
            return dict(pair for pair in pairs if pair)
    return {}


def _described(before: ast.stmt, after: ast.stmt) -> tuple[str, str] | None:
    match before, after:
        case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
            return name, _prose(text)
    return None


def _prose(text: str) -> str:
    """Paragraphs without the line breaks of the source: whoever shows them wraps them again."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text))
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs).strip()
