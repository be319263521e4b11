"""Compile the extension: `python -m sunk.slurm.binding.build FOLDER` writes it into a package's folder.

The image's build runs it with the image's Python, against the slurm.h of that Debian release. It needs gcc and the
headers of Python and Slurm, and no setuptools: one call of the compiler is all there is to do.
"""

import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import cffi
from msgspec.structs import fields

from sunk.slurm.binding.shapes import SHAPES, Shape

NAME: Final = "_libslurm"
HERE: Final = Path(__file__).parent
HEADERS: Final = Path("/usr/include/slurm")
_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
_ERROR: Final = re.compile(r"^\s+(E?S[A-Z0-9]+_[A-Z0-9_]+)\s*(?:=\s*\d+\s*)?,", re.MULTILINE)
_PACKED: Final[dict[Any, str]] = {
    str: "put_text(b, {value})",
    int: "put_number(b, {value})",
    bool: "put_truth(b, {value})",
    int | None: "put_optional(b, {value}, sizeof({value}))",
    tuple[str, ...]: "put_words(b, {value})",
}


def source() -> str:
    """The whole C text."""
    errors = (HEADERS / "slurm_errno.h").read_text()
    parts = [
        *(_text(name) for name in ("memory.h", "versions.h", "msgpack.h", "calls.h")),
        *(packer(name, shape) for name, shape in SHAPES.items()),
        error_names(errors),
        *(_text(name) for name in ("reads.h", "accounting.h", "accounts.h", "orders.h", "guarded.h")),
    ]
    return "\n\n".join(parts)


def packer(name: str, shape: Shape) -> str:
    """The function that packs one row as its record."""
    lines = [shape.before, f"put_array(b, {len(fields(shape.record))});", *_statements(shape), shape.after]
    body = "\n".join(f"\t{line}" for line in lines if line)
    return f"static void pack_{name}(sunk_buffer *b, {shape.row} *r)\n{{\n{body}\n}}"


def _statements(shape: Shape) -> Iterator[str]:
    found = {field.name: field.type for field in fields(shape.record)}
    if extra := (shape.values.keys() | shape.cut.keys()) - found.keys():
        raise ValueError(f"{shape.record.__name__} has no field called {', '.join(sorted(extra))}")
    for name, kind in found.items():
        value = shape.values.get(name, f"r->{name}")
        yield (value if value.startswith("put_") else _packed(kind, cut=shape.cut.get(name)).format(value=value)) + ";"


def _packed(kind: Any, *, cut: int | None) -> str:
    return _PACKED[kind] if cut is None else f"put_cut(b, {{value}}, {cut})"


def error_names(header: str) -> str:
    """A table of Slurm's error numbers and their names, from the enumeration in its header."""
    names = _ERROR.findall(_COMMENT.sub("", header))
    rows = "\n".join(f'\t{{ {name}, "{name}" }},' for name in names)
    return f"static const struct {{ int code; const char *name; }} sunk_error_names[] = {{\n{rows}\n}};"


def compile_into(folder: Path) -> Path:
    ffi = cffi.FFI()
    ffi.cdef(_COMMENT.sub("", _text("cdef.h")))
    ffi.set_source(f"sunk.slurm.binding.{NAME}", source())
    made = folder / f"{NAME}{sysconfig.get_config_var('EXT_SUFFIX')}"
    with tempfile.TemporaryDirectory() as scratch:
        text = Path(scratch) / f"{NAME}.c"
        ffi.emit_c_code(str(text))
        include = (f"-I{sysconfig.get_path(kind)}" for kind in ("include", "platinclude"))
        flags = ("-O2", "-g0", "-Wall", "-Werror", "-Wno-unused-function", "-shared", "-fPIC")
        subprocess.run(["gcc", *flags, *include, "-o", made, text, "-lslurm"], check=True)
    return made


def _text(name: str) -> str:
    return (HERE / name).read_text()


if __name__ == "__main__":
    print(compile_into(Path(sys.argv[1])))  # noqa: T201 - a command
