"""A Slurm node as people see it: `scontrol show node`, read."""

import json
import re
from typing import Any

from msgspec import Struct

_STATE = re.compile(r"\bState=(\S+)")
_FEATURES = re.compile(r"\bActiveFeatures=(\S*)")
_REASON = re.compile(r"^\s*Reason=(.*?)(?: \[\S+@\S+\])?$", re.MULTILINE)
_EXTRA = re.compile(r"^\s*Extra=(.*)$", re.MULTILINE)


class Seen(Struct, frozen=True):
    """Base state and flags in Slurm's words; not known to Slurm, if there are none."""

    states: frozenset[str] = frozenset()
    reason: str = ""
    features: tuple[str, ...] = ()
    extra: str = ""

    @property
    def known(self) -> bool:
        return bool(self.states)

    @property
    def drained(self) -> bool:
        """Whether the flag is on, with or without a job."""
        return "DRAIN" in self.states

    @property
    def ours(self) -> dict[str, Any]:
        """Our own key of the extra; empty where users have written something else."""
        try:
            whole = json.loads(self.extra or "{}")
        except ValueError:
            return {}
        found = whole.get("k8s", {}) if isinstance(whole, dict) else {}
        return dict(found) if isinstance(found, dict) else {}


def read(text: str) -> Seen:
    """What `scontrol show node NAME` prints of a node."""
    features = _first(_FEATURES, text)
    return Seen(
        states=frozenset(_first(_STATE, text).split("+")) - {""},
        reason=_first(_REASON, text),
        features=tuple(word for word in features.split(",") if word and word != "(null)"),
        extra=_first(_EXTRA, text),
    )


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""
