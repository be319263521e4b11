"""The clock by which every duration is measured: that of the running event loop.

It never goes back, and tests that replace the loop's time need not sleep.
"""

import asyncio


def now() -> float:
    """Seconds, to be compared only with other readings of the same loop."""
    return asyncio.get_running_loop().time()
