"""What two processes agree on is declared once, in `sunk.model.names` and `sunk.model.contract`.

Python uses the declaration. Charts, shell and manifests cannot, so what they repeat has to be equal to it.
"""

import ast
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Final

import msgspec
import yaml

from sunk.model import names
from sunk.model.contract import clusterobjects, conditions, drains, keyset

ROOT: Final = Path(__file__).parents[3]
PACKAGE: Final = ROOT / "src" / "sunk"
DECLARED_IN: Final = (PACKAGE / "model" / "names.py", *sorted((PACKAGE / "model" / "contract").glob("*.py")))
KEY: Final = re.compile(rf"{re.escape(names.GROUP)}/([A-Za-z0-9_-]+)")
DRAIN_TEXT: Final = re.compile(rf"""["']{drains.PREFIX} ?([^"']*)["']""")
KUBERNETES_OWN: Final = frozenset({"Ready"})
"""Words that Kubernetes uses of its own objects too."""


def texts(module: ModuleType) -> set[str]:
    return {value for key, value in vars(module).items() if key.isupper() and isinstance(value, str)}


OBJECTS: Final = texts(clusterobjects) - {clusterobjects.SYNCER, clusterobjects.HOOKS}  # plain words too
WORDS: Final = frozenset(
    (texts(conditions) - KUBERNETES_OWN)
    | {one for one in texts(names) if re.fullmatch(r"([A-Z][a-z]+){2,}", one) or one.startswith("Slurm")}
    | {one for one in texts(names) if "/" in one}
    | {drains.PREFIX, drains.VERIFY, drains.NEW, keyset.SLURM_KEY, keyset.SLURM_JWKS}
    | OBJECTS
)
PORTS: Final = {value for key, value in vars(clusterobjects).items() if key.endswith("_PORT")}
REASONS: Final = {drains.text(msgspec.convert({cause: True}, drains.Causes)) for cause in drains.WORDS} | {
    f"{drains.PREFIX} cordon"
}
# A file of Slurm's own, named where no process of ours has a part in it; and what every program may have as its default.
ALLOWED: Final = {
    ("local/slurm/boxes/layout.py", keyset.SLURM_KEY),
    ("kube/process/health.py", clusterobjects.HEALTH_PORT),
}


def literals(path: Path) -> Iterator[tuple[int, str | int]]:
    """Texts and numbers of a module, without its docstrings; of texts with gaps, the pieces."""
    tree = ast.parse(path.read_text())
    documentation = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in documentation:
            value = node.value.decode(errors="replace") if isinstance(node.value, bytes) else node.value
            if isinstance(value, str | int) and not isinstance(value, bool):
                yield node.lineno, value


def stray(value: str | int) -> bool:
    if isinstance(value, int):
        return value in PORTS
    if value.startswith("#!"):  # a script: below
        return False
    return (
        value in WORDS
        or names.GROUP in value
        or value.startswith(f"{drains.PREFIX} ")
        or value.removeprefix("-") in OBJECTS
    )


def test_python_repeats_no_name_that_is_declared() -> None:
    modules = (path for path in sorted(PACKAGE.rglob("*.py")) if path not in DECLARED_IN)
    found = [
        f"{path.relative_to(ROOT)}:{line}: {value!r}"
        for path in modules
        for line, value in literals(path)
        if stray(value) and (str(path.relative_to(PACKAGE)), value) not in ALLOWED
    ]
    assert found == []


def composed(path: Path) -> Iterator[int]:
    """Lines of a module on which a key under our group is put together."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            text = ast.unparse(node)
            if re.search(r"GROUP\}/.", text) and not text.endswith(("GROUP}/'", 'GROUP}/"')):
                yield node.lineno


def test_keys_are_composed_where_they_are_declared() -> None:
    # What is cut out of an object on the wire stands in no object.
    modules = (path for path in PACKAGE.rglob("*.py") if path not in {*DECLARED_IN, PACKAGE / "kube/api/stream.py"})
    assert [f"{path.relative_to(ROOT)}:{line}" for path in modules for line in composed(path)] == []


def shipped() -> Iterator[Path]:
    """What cannot import Python: charts, images and shell."""
    everything = chain((ROOT / "charts").rglob("*"), (ROOT / "images").rglob("*"), PACKAGE.rglob("*.sh"))
    return (path for path in everything if path.is_file() and path.suffix != ".json")


def scripts() -> Iterator[tuple[Path, str]]:
    """Shell, in files and in modules."""
    for path in shipped():
        if (text := path.read_text()).startswith("#!"):
            yield path, text
    for path in PACKAGE.rglob("*.py"):
        yield from ((path, text) for _, text in literals(path) if isinstance(text, str) and "scontrol" in text)


def test_charts_and_images_use_only_keys_that_are_declared() -> None:
    declared = {one.removeprefix(f"{names.GROUP}/") for one in texts(names) if one.startswith(f"{names.GROUP}/")}
    found = {(str(path.relative_to(ROOT)), key) for path in shipped() for key in KEY.findall(path.read_text())}
    assert {(path, key) for path, key in found if key not in declared} == set()
    assert found, "nothing was looked at"


def test_scripts_drain_with_reasons_that_are_declared() -> None:
    found = {
        (path.name, f"{drains.PREFIX} {text}") for path, script in scripts() for text in DRAIN_TEXT.findall(script)
    }
    assert {one for one in found if one[1] not in REASONS} == set()


def test_the_chart_serves_on_the_port_that_is_declared() -> None:
    values = yaml.safe_load((ROOT / "charts" / "sunk" / "values.yaml").read_text())
    assert values["metrics"]["port"] == clusterobjects.HEALTH_PORT


def test_the_chart_names_annotations_as_they_are_declared() -> None:
    values = yaml.safe_load((ROOT / "charts" / "sunk" / "values.yaml").read_text())
    assert values["cordonReasonAnnotation"] == names.CORDON_REASON


def test_a_literal_that_strays_is_found() -> None:
    assert stray("SlurmDrain")
    assert stray(f"{names.GROUP}/new-thing")
    assert stray("k8s: new node")
    assert stray("-slurm-conf")
    assert stray(6817)
    assert not stray("Ready")
