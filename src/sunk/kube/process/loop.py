"""The event loop of a process of ours: uvloop where it is installed, as in the images, else Python's own."""

import asyncio
import gc
from collections.abc import Coroutine
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end, as `asyncio.run` does."""
    # What was imported stays as long as we do. Walking through it takes the collector longer than all the records of
    # a large cluster, which it does not have to look at (`gc=False`).
    gc.collect()
    gc.freeze()
    factory = import_module("uvloop").new_event_loop if find_spec("uvloop") else None
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)
