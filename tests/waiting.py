"""Wait for what a real system does in its own time, with an end."""

import time
from collections.abc import Callable


def eventually(check: Callable[[], bool], *, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, f"not so within {seconds} s"
        time.sleep(0.2)
