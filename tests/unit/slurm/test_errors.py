"""Slurm's numbers as exceptions."""

import pytest

from sunk.slurm import errors


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (1800, errors.Unreachable),
        (2018, errors.UnknownName),
        (2016, errors.Busy),
        (2028, errors.InvalidState),
        (2021, errors.InvalidJob),
        (2017, errors.InvalidJob),
        (9999, errors.SlurmError),
    ],
)
def test_a_number_has_its_kind(number: int, kind: type[errors.SlurmError]) -> None:
    assert isinstance(errors.refusal(number, asked="x"), kind)


def test_an_error_says_what_was_asked_and_what_slurm_said() -> None:
    found = errors.refusal(2018, asked="update nodes n1", text="Invalid node name", name="ESLURM_INVALID_NODE_NAME")
    assert str(found) == "update nodes n1: Invalid node name (ESLURM_INVALID_NODE_NAME 2018)"
