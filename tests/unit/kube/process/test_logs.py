"""Log lines for machines and for people."""

import io
import logging
from collections.abc import Iterator

import pytest
from msgspec import json

from sunk.kube.process import logs
from sunk.kube.resource import Key


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()  # pytest's own, which would be closed otherwise
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_machine_gets_one_object_a_line_with_every_extra_field() -> None:
    stream = io.StringIO()
    logs.start(stream=stream)
    logging.getLogger("sunk.x").warning("drained %s\ntwice", "node-1", extra={"key": Key("a", "b"), "tries": 2})
    logging.getLogger("sunk.x").debug("not said")
    (line,) = stream.getvalue().splitlines()
    found = json.decode(line)
    assert found.pop("time").endswith("Z")
    assert found == {
        "level": "warning",
        "logger": "sunk.x",
        "message": "drained node-1\ntwice",
        "key": {"namespace": "a", "name": "b"},
        "tries": 2,
    }


def test_an_error_keeps_its_traceback_within_the_line() -> None:
    stream = io.StringIO()
    logs.start(stream=stream)
    try:
        json.decode("")
    except ValueError:
        logging.getLogger("sunk.x").exception("a bug")
    (line,) = stream.getvalue().splitlines()
    assert "Input data was truncated" in json.decode(line)["error"]


def test_a_person_gets_words() -> None:
    stream = Terminal()
    logs.start(stream=stream, level="debug")
    logging.getLogger("sunk.x").debug("hello")
    assert stream.getvalue().endswith("DEBUG   sunk.x: hello\n")
