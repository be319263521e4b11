"""Settings of a process: one declaration for values, options and variables."""

import pytest
from msgspec import Struct

from sunk.model.cluster.daemons import SyncerSettings
from sunk.model.settings import arguments, options


class Wrong(Struct):
    name: str = ""
    """No switch and no number."""


def test_every_setting_has_a_flag_a_variable_and_a_description() -> None:
    found = options(SyncerSettings)
    assert [option.name for option in found] == list(SyncerSettings.__struct_fields__)
    assert all(option.help for option in found)
    assert {option.name: (option.flag, option.variable) for option in found}["clock_skew"] == (
        "--clock-skew",
        "SUNK_CLOCK_SKEW",
    )


def test_a_command_line_says_numbers_and_switches() -> None:
    words = arguments(SyncerSettings(wave_share=0.5, slurm_node_clean_up=False))
    assert "--wave-share=0.5" in words
    assert "--no-slurm-node-clean-up" in words


def test_a_setting_that_is_neither_a_switch_nor_a_number_is_refused() -> None:
    with pytest.raises(TypeError, match="name: a setting is a switch or a number"):
        options(Wrong)
