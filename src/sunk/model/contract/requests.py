"""What a person asks of Slurm about one node, through an annotation of its Pod, and the answer.

People who may write to a Pod may drain its node. The reason is theirs: it never begins with `k8s:`, so nothing of ours
lifts it.
"""

from typing import Final, Literal

from msgspec import Struct

LONGEST: Final = 1024
"""Characters of a drain's reason that people see at a Pod, and that an undrain names."""


class Order(Struct, frozen=True, omit_defaults=True):
    """An order. `id` is new with each, so that the same may be asked twice."""

    id: str
    act: Literal["drain", "undrain"]
    reason: str = ""
    lifts: str | None = None
    """The reason of the drain that an undrain is about, as its author saw it. None: whatever drain there is."""


class Answer(Struct, frozen=True, omit_defaults=True):
    """What became of the order with this id; a refusal says why and what to do next."""

    id: str
    done: bool
    words: str = ""
