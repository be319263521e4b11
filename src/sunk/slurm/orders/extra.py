"""The text that users and we share in a node's `Extra`: a JSON object in which some keys are ours.

What users put beside our keys stays. What is no JSON object is cleared and replaced, because nobody could add to it.
"""

from collections.abc import Mapping
from typing import Any

import msgspec


def read(text: str) -> dict[str, Any]:
    """The object in it; empty where there is none."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        return {}


def merge(text: str, ours: Mapping[str, Any]) -> str:
    """Lay our keys over what is there; None takes a key away. The same text comes back where nothing would change."""
    found = read(text)
    merged = {**found, **ours}
    merged = {key: value for key, value in merged.items() if key not in ours or value is not None}
    if merged == found and (found or text in {"", "{}"}):
        return text
    return msgspec.json.encode(merged).decode()
