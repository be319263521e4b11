"""A program on a terminal of its own, as a person would run it."""

import fcntl
import os
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

ROWS, COLUMNS = 30, 140


class Terminal:
    """What a program wrote since it was started or last asked."""

    def __init__(self, process: subprocess.Popen[bytes], screen: int) -> None:
        self.process = process
        self._screen = screen
        self._unread = ""

    def until(self, text: str, *, seconds: float = 120) -> str:
        """Read until it shows, and give all that came before with it."""
        seen = ""
        deadline = time.monotonic() + seconds
        while text not in seen:
            assert time.monotonic() < deadline, f"{text!r} did not come within {seconds} s, but {seen[-2000:]!r}"
            seen += self._read()
        return seen

    def interrupt(self) -> int:
        """Do what Ctrl-C does, and give the exit code."""
        self.process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + 60
        # A terminal takes a few kilobytes that nobody reads, and then stops whoever writes.
        while self.process.poll() is None and time.monotonic() < deadline:
            self._unread += self._read()
        return self.process.wait(1)

    def rest(self) -> str:
        return self._unread + "".join(iter(self._read, ""))

    def _read(self) -> str:
        ready, _, _ = select.select([self._screen], [], [], 0.1)
        try:
            return os.read(self._screen, 1 << 16).decode(errors="replace") if ready else ""
        except OSError:  # its other end is closed
            return ""


@contextmanager
def terminal(*command: str) -> Iterator[Terminal]:
    screen, inner = os.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    # Whoever runs these tests in the background has them ignore Ctrl-C, and that would be handed down.
    command = ("env", "--default-signal=INT", *command)
    with subprocess.Popen(
        command, stdin=inner, stdout=inner, stderr=inner, env=environment, start_new_session=True
    ) as process:
        os.close(inner)
        try:
            yield Terminal(process, screen)
        finally:
            process.kill()
            os.close(screen)
