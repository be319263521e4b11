"""A busy stream is read in gulps: held for a moment in the kernel, never longer, and nothing of it is lost."""

import asyncio
import fcntl
import select
import socket
import struct
import termios
from collections.abc import Iterator
from typing import Any

import pytest
from tests.waiting import eventually

from sunk.kube.api.stream import HOLD, MUCH, PAUSE, Stream

pytestmark = pytest.mark.looptime

CONTENT: Any = None
"""What is read does not matter here, only when the kernel says that there is something."""
SIZE = 100


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a real connection: ours, and the server's."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    with ours, theirs:
        yield ours, theirs


def mark(ours: socket.socket) -> int:
    return ours.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)


def wakes(ours: socket.socket) -> bool:
    """Whether a loop that waits for this socket would be woken."""
    return bool(select.select([ours], [], [], 0)[0])


def waiting(ours: socket.socket) -> int:
    """Bytes that have come and were not read."""
    found: int = struct.unpack("i", fcntl.ioctl(ours, termios.FIONREAD, b"\0" * 4))[0]
    return found


async def busy(ours: socket.socket) -> Stream:
    """A stream of which two reads have come in close succession."""
    stream = Stream(CONTENT, ours)
    stream.gather(SIZE)
    await asyncio.sleep(PAUSE / 4)
    stream.gather(SIZE)
    return stream


async def test_what_comes_after_a_first_change_is_not_held(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, _ = pair
    Stream(CONTENT, ours).gather(SIZE)
    assert mark(ours) == 1


async def test_while_changes_keep_coming_the_next_are_held_for_a_moment(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, _ = pair
    await busy(ours)
    assert mark(ours) == MUCH
    await asyncio.sleep(HOLD * 0.9)
    assert mark(ours) == MUCH
    await asyncio.sleep(HOLD * 0.1)
    assert mark(ours) == 1


async def test_a_hold_is_not_made_longer_by_what_is_read_meanwhile(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, _ = pair
    stream = await busy(ours)
    await asyncio.sleep(HOLD * 0.9)
    stream.gather(SIZE)
    await asyncio.sleep(HOLD * 0.1)
    assert mark(ours) == 1


async def test_after_a_pause_a_change_is_a_first_one_again(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, _ = pair
    stream = await busy(ours)
    await asyncio.sleep(PAUSE)
    stream.gather(SIZE)
    assert mark(ours) == 1


async def test_behind_a_large_gulp_nothing_is_held(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, _ = pair
    stream = Stream(CONTENT, ours)
    stream.gather(SIZE)
    stream.gather(MUCH)
    assert mark(ours) == 1


async def test_a_burst_wakes_nobody_until_the_hold_is_over_and_then_is_there_as_a_whole(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    await busy(ours)
    for each in range(5):
        theirs.sendall(b"%d" % each)
    eventually(lambda: waiting(ours) == 5)
    assert not wakes(ours)
    await asyncio.sleep(HOLD)
    eventually(lambda: wakes(ours))
    assert ours.recv(SIZE) == b"01234"


async def test_much_at_once_wakes_us_within_a_hold(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    await busy(ours)
    theirs.sendall(b"x" * MUCH)
    eventually(lambda: wakes(ours))


async def test_the_end_of_a_stream_is_heard_within_a_hold(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    await busy(ours)
    theirs.sendall(b"last")
    theirs.shutdown(socket.SHUT_WR)
    eventually(lambda: wakes(ours))
    assert ours.recv(SIZE) == b"last"
    assert ours.recv(SIZE) == b""


async def test_who_leaves_a_stream_leaves_its_connection_awake(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, _ = pair
    stream = await busy(ours)
    stream.let_go()
    assert mark(ours) == 1


async def test_a_connection_that_is_closed_within_a_hold_does_no_harm(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, _ = pair
    stream = await busy(ours)
    ours.close()
    await asyncio.sleep(HOLD)
    stream.gather(SIZE)
    stream.let_go()
