"""Wait for what a real system does in its own time, with an end."""

import time
from collections.abc import Callable

LONGEST_PAUSE = 2.0


def eventually(check: Callable[[], bool], *, seconds: float = 120) -> None:
    """Check until it is so. A check that takes long (kubectl, a command in a Pod) is followed by as long a pause.

    Otherwise a test that waits would use a whole core, on a machine with two of them on which others run too.
    """
    deadline = time.monotonic() + seconds
    began = time.monotonic()
    while not check():
        now = time.monotonic()
        assert now < deadline, f"not so within {seconds} s"
        time.sleep(min(max(0.2, now - began), LONGEST_PAUSE))
        began = time.monotonic()
