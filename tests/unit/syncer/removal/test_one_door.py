"""What destroys goes through the guard, and has no other way."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import sunk.syncer

SYNCER: Final = Path(sunk.syncer.__file__).parent
GUARD: Final = SYNCER / "removal" / "guard.py"
WORDS: Final = frozenset({"CLEAR_TO_DELETE", "RESTART", "POD_ANNOTATIONS"})
"""Names of annotations upon which somebody deletes a Pod, and of the list that has them."""
DELETIONS: Final = frozenset({"delete", "delete_nodes"})
"""Of records by `Orders` and by libslurm, and of objects by a collection or a client. The syncer needs no other."""
WRITES: Final = frozenset({"patch", "replace", "create", "post"})
PROOFS: Final = frozenset({"require_fresh", "catch_up", "confirm"})
"""What the parts of `removal` had copies of."""


def entrances(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Lines of a module that destroy, or write what others destroy upon."""
    readings = {id(node) for reading in ast.walk(tree) for node in _read(reading)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr | ast.alias):
            continue
        deletes = isinstance(node, ast.Attribute) and node.attr in DELETIONS
        if deletes or (_word(node) in WORDS and id(node) not in readings):
            yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Call) and _writes_slices(node):
            yield node.lineno, ast.unparse(node.func)


def _word(node: ast.AST) -> str:
    if isinstance(node, ast.alias):
        return node.name
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _read(node: ast.AST) -> tuple[ast.AST, ...]:
    """The key of a reading: `key in marks`, `marks.get(key)`, `marks[key]`."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        return (node.left,)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        return tuple(node.args[:1])
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        return (node.slice,)
    return ()


def _writes_slices(call: ast.Call) -> bool:
    """Whether slices are written: `….slices.patch(…)`, or with the resource as an argument."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in WRITES:
        return False
    whose = call.func.value
    return _word(whose).strip("_") in {"slices", "NODESLICES"} or any(_word(arg) == "NODESLICES" for arg in call.args)


def test_the_door_has_no_back_entrance() -> None:
    modules = [path for path in sorted(SYNCER.rglob("*.py")) if path != GUARD]
    assert len(modules) > 30, "nothing was looked at"
    found = [
        f"{path.relative_to(SYNCER)}:{line}: {text}"
        for path in modules
        for line, text in entrances(ast.parse(path.read_text()))
    ]
    assert found == []


def test_all_of_it_stands_in_the_guard() -> None:
    found = {text for _, text in entrances(ast.parse(GUARD.read_text()))}
    assert found == {
        "self._context.orders.delete",
        "names.CLEAR_TO_DELETE",
        "names.RESTART",
        "self._context.slices.patch",
    }


def test_what_the_guard_asks_is_asked_nowhere_else_in_removal() -> None:
    modules = [path for path in sorted((SYNCER / "removal").glob("*.py")) if path != GUARD]
    calls = (
        (path.name, ast.unparse(node))
        for path in modules
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    )
    copies = [
        (name, text)
        for name, text in calls
        if "read_after(whole=True)" in text or any(f".{proof}(" in text for proof in PROOFS)
    ]
    assert [copy for copy in copies if not copy[1].startswith("permit.confirm(")] == []


@pytest.mark.parametrize(
    "text",
    [
        "await context.orders.delete(names)",
        "delete = self._orders.delete",
        "library.wire.delete_nodes(text)",
        "await context.pods.delete(key)",
        "annotations = {names.CLEAR_TO_DELETE: None}",
        "annotations[names.RESTART] = 'now'",
        "from sunk.model.names import RESTART",
        "mark(pod, CLEAR_TO_DELETE)",
        "await context.slices.patch(key, change, status=True)",
        "await self._slices.replace(key, body, status=True)",
        "await client.patch(NODESLICES, name, change)",
    ],
)
def test_a_back_entrance_is_found(text: str) -> None:
    body = ast.parse(f"async def entrance():\n    {text}") if "import" not in text else ast.parse(text)
    assert [*entrances(body)]


@pytest.mark.parametrize(
    "text",
    [
        "marks.get(names.CLEAR_TO_DELETE)",
        "names.RESTART in marks",
        "text = marks[names.CLEAR_TO_DELETE]",
        "context.slices.store.get(key)",
        "RESTARTS = 0.1",
    ],
)
def test_to_read_is_no_entrance(text: str) -> None:
    assert [*entrances(ast.parse(text))] == []
