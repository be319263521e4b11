"""The C code that is written from the records."""

import pytest
from msgspec import Struct
from msgspec.structs import fields

from sunk.slurm.binding.build import error_names, packer
from sunk.slurm.binding.shapes import SHAPES, Shape


class Row(Struct):
    name: str
    cpus: int
    limit: int | None
    words: tuple[str, ...]


def test_how_a_value_is_packed_follows_from_its_type() -> None:
    code = packer("rows", Shape(record=Row, row="row_t", values={"limit": "r->max", "words": "put_texts(b, r->w, 3)"}))
    assert code.splitlines() == [
        "static void pack_rows(sunk_buffer *b, row_t *r)",
        "{",
        "\tput_array(b, 4);",
        "\tput_text(b, r->name);",
        "\tput_number(b, r->cpus);",
        "\tput_optional(b, r->max, sizeof(r->max));",
        "\tput_texts(b, r->w, 3);",
        "}",
    ]


def test_a_value_for_no_field_is_refused() -> None:
    with pytest.raises(ValueError, match="Row has no field called nmae"):
        packer("rows", Shape(record=Row, row="row_t", values={"nmae": "r->name"}))


@pytest.mark.parametrize("name", SHAPES)
def test_every_field_of_every_record_is_packed_once(name: str) -> None:
    shape = SHAPES[name]
    statements = [line for line in packer(name, shape).splitlines() if line.startswith("\tput_")]
    assert len(statements) == len(fields(shape.record)) + 1


def test_error_names_come_from_the_header() -> None:
    header = "typedef enum {\n\tSLURM_A_ONE = 1000, /* an\n\t OLD_NAME, */\n\tESLURM_B,\n\tESLURM_LAST\n} x;\n"
    assert '{ SLURM_A_ONE, "SLURM_A_ONE" }' in error_names(header)
    assert "ESLURM_B" in error_names(header)
    assert "OLD_NAME" not in error_names(header)
