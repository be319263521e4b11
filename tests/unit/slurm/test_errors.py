"""Slurm's numbers as exceptions."""

import errno

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
        (5003, errors.Unreachable),
        (5005, errors.Unreachable),
        (errno.EPIPE, errors.Unreachable),
        (errno.ECONNRESET, errors.Unreachable),
        (errno.ETIMEDOUT, errors.Unreachable),
    ],
)
def test_a_number_has_its_kind(number: int, kind: type[errors.SlurmError]) -> None:
    assert isinstance(errors.refusal(number, asked="x"), kind)


def test_an_error_says_what_was_asked_and_what_slurm_said() -> None:
    found = errors.refusal(2018, asked="update nodes n1", text="Invalid node name", name="ESLURM_INVALID_NODE_NAME")
    assert str(found) == "update nodes n1: Invalid node name (ESLURM_INVALID_NODE_NAME 2018)"


@pytest.mark.parametrize("number", [-1, 1000, 1007, 1800, 5005, 6000, 7000, errno.ECONNRESET])
def test_what_is_no_word_of_slurmctld_about_the_order_is_not_final(number: int) -> None:
    assert not errors.refusal(number, asked="x").final


@pytest.mark.parametrize("number", [2002, 2016, 2028, 7001, 7009])
def test_what_slurmctld_refuses_is_final(number: int) -> None:
    assert errors.refusal(number, asked="x").final


@pytest.mark.parametrize("number", [-1, 1000])
def test_an_error_without_a_number_stops_no_order_for_others(number: int) -> None:
    assert not isinstance(errors.refusal(number, asked="x"), errors.Unreachable)
