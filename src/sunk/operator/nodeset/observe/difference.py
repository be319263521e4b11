"""Compare sets that are the same objects as long as nothing in them changes."""


class Difference:
    """What is in one set and not in another, sought again only when one of them is another object."""

    def __init__(self) -> None:
        self._sides: tuple[frozenset[str], frozenset[str]] | None = None
        self._found: frozenset[str] = frozenset()

    def between(self, one: frozenset[str], other: frozenset[str]) -> frozenset[str]:
        if self._sides is None or self._sides[0] is not one or self._sides[1] is not other:
            self._sides, self._found = (one, other), one - other
        return self._found
