"""Tell a waiting person what is being done and how long it took.

On a terminal the step under way turns and counts; elsewhere (CI, a pipe) each step is one line when it is over, and
a step that takes long says once a minute that it is still at work, so that a log never looks dead.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.status import Status

HEARTBEAT = 60.0

console = Console(stderr=True, highlight=False, soft_wrap=True)


@contextmanager
def step(title: str) -> Iterator[None]:
    """Show `title` while the block runs, then its time. A failure is marked and raised on."""
    began = time.monotonic()
    with _live(title, began=began):
        try:
            yield
        except BaseException:
            console.print(f"[red]✗[/] {escape(title)} [dim]{_elapsed(began)}[/]")
            raise
    console.print(f"[green]✓[/] {escape(title)} [dim]{_elapsed(began)}[/]")


def note(text: str) -> None:
    """Say something that a person should know and that stops nothing."""
    console.print(f"[yellow]![/] {escape(text)}")


def _elapsed(began: float) -> str:
    seconds = time.monotonic() - began
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{seconds:.1f} s"


@contextmanager
def _live(title: str, *, began: float) -> Iterator[None]:
    over = threading.Event()
    status = Status(escape(title), console=console) if sys.stderr.isatty() else None
    ticker = threading.Thread(target=_tick, args=(title, began, over, status), daemon=True)
    with status if status is not None else _nothing():
        ticker.start()
        try:
            yield
        finally:
            over.set()
            ticker.join()


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _tick(title: str, began: float, over: threading.Event, status: Status | None) -> None:
    while not over.wait(1.0 if status else HEARTBEAT):
        if status:
            status.update(f"{escape(title)} [dim]{_elapsed(began)}[/]")
        else:
            console.print(f"… {escape(title)} [dim]{_elapsed(began)}[/]")
