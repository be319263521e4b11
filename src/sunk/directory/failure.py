"""Why a directory could not be read: the one exception that ends a read and is told to people."""

from typing import Final


class Failure(Exception):  # noqa: N818 - what happened to the directory, not a fault of ours
    """A read that failed. `state` is a word of `sunk.model.contract.people`; `option` is what to blame, as sssd calls it.

    The words must be the same for the same trouble: they go into a ConfigMap that is written when they change. So no times,
    no ports of ours, no counters.
    """

    def __init__(self, state: str, words: str, *, option: str) -> None:
        super().__init__(words)
        self.state: Final = state
        self.words: Final = words
        self.option: Final = option
