"""Real directories: slapd out of the image `directory`, one for each test that changes it."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sunk.local import directory as directories
from sunk.local.directory import DirectoryServer

MakeServer = Callable[..., DirectoryServer]


@pytest.fixture
def make_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeServer]:
    """Start directories; the agent finds their ldapsearch in PATH."""
    with ExitStack() as stack:

        def make(name: str = "corp", *, demand_certificate: bool = False) -> DirectoryServer:
            folder = tmp_path / "servers" / name
            folder.mkdir(parents=True)
            made = stack.enter_context(directories.server(folder, demand_certificate=demand_certificate))
            monkeypatch.setenv("PATH", f"{made.bin}:{os.environ['PATH']}")
            return made

        yield make


@pytest.fixture
def server(make_server: MakeServer) -> DirectoryServer:
    return make_server()
