"""The hook server runs on uvloop in the images and on Python's own loop elsewhere: its tests run on both."""

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop

Factory = Callable[[], asyncio.AbstractEventLoop]


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Factory]:
    usual: dict[str, Factory] = {"asyncio": asyncio.new_event_loop}
    return usual | {"uvloop": uvloop.new_event_loop} if item.path.name == "test_server.py" else usual
