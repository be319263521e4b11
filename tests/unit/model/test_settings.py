"""Settings of a process: one declaration for values, options and variables."""

import pytest
from msgspec import Struct

from sunk.model.cluster.daemons import SyncerSettings
from sunk.model.settings import environment, options


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


def test_variables_say_numbers_and_switches() -> None:
    found = environment(SyncerSettings(wave_share=0.5, not_ready_after=3, slurm_node_clean_up=False))
    assert found["SUNK_WAVE_SHARE"] == "0.5"
    assert found["SUNK_NOT_READY_AFTER"] == "3"
    assert found["SUNK_SLURM_NODE_CLEAN_UP"] == "false"


def test_a_setting_that_is_neither_a_switch_nor_a_number_is_refused() -> None:
    with pytest.raises(TypeError, match="name: a setting is a switch or a number"):
        options(Wrong)
