"""The texts in which Slurm describes GPUs."""

import pytest

from sunk.slurm.gres import count, indices


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu:h100:2(IDX:0-1)", (0, 1)),
        ("gpu:3(IDX:0,4-5)", (0, 4, 5)),
        ("gpu:h100:1(IDX:7),gpu:a100:2(IDX:0,2)", (0, 2, 7)),
        ("shard:4(IDX:3),gpu:h100:1(IDX:1)", (1,)),
        ("gpu:h100:0(IDX:N/A)", ()),
        ("gpu:h100:8(S:0-1)", ()),
        ("gpu:8", ()),
        ("", ()),
    ],
)
def test_indices(text: str, expected: tuple[int, ...]) -> None:
    assert indices(text) == expected


@pytest.mark.parametrize(("text", "expected"), [("gpu:h100:8(S:0-1),gpu:a100:2", 10), ("shard:9,gpu:1", 1), ("", 0)])
def test_count(text: str, expected: int) -> None:
    assert count(text) == expected
