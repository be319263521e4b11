"""How great a loss a person has looked at and means, by the annotation `accept-loss`."""

from collections.abc import Mapping
from typing import Final

from sunk.model import names

_LONGEST_NUMBER: Final = 9
"""Digits: Python refuses to read thousands of them."""


def accepted_loss(annotations: Mapping[str, str]) -> int:
    said = annotations.get(names.ACCEPT_LOSS, "")
    return int(said) if said.isdecimal() and len(said) <= _LONGEST_NUMBER else 0
