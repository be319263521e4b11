"""What a piece of work has cost the process that did it.

Only the standard library is used: peers in environments of their own measure themselves by the same ruler.
"""

import json
import os
import time
from pathlib import Path

MB = 1e6


def held() -> float:
    """Megabytes of memory that this process has just now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MB


def peak() -> float:
    """Megabytes of memory that this process has had at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")) / MB


class Effort:
    """Begun when the work begins, with everything imported; told when it is done."""

    def __init__(self) -> None:
        self._held = held()
        self._cpu = time.process_time()
        self._began = time.monotonic()

    def tell(self, objects: int) -> None:
        """Print all of it as one line, for whoever started this process."""
        seconds, cpu = time.monotonic() - self._began, time.process_time() - self._cpu
        whole = held()
        found = {"seconds": seconds, "cpu": cpu, "grown": whole - self._held, "whole": whole, "peak": peak()}
        print(json.dumps(found | {"objects": objects}), flush=True)
