"""How far apart two clocks are, learned from what one of them tells in whole seconds.

An answer with the time `told` was made between the moments when it was asked for and when it came. So the other clock
was in [told, told + 1) somewhere in between, which bounds the difference from both sides. Every answer narrows the
bounds; one that contradicts them means that a clock was set, and begins again.
"""

from msgspec import Struct


class Offset(Struct):
    """By how many seconds another clock is ahead of the one that the moments are counted by."""

    least: float = float("-inf")
    most: float = float("inf")

    def hear(self, told: int, *, sent: float, got: float) -> None:
        least, most = told - got, told + 1 - sent
        narrowed = max(self.least, least), min(self.most, most)
        self.least, self.most = narrowed if narrowed[0] <= narrowed[1] else (least, most)

    @property
    def seconds(self) -> float | None:
        """The middle of what is possible; None before the first answer."""
        return None if self.least == float("-inf") else (self.least + self.most) / 2
