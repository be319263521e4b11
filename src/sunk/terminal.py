"""How commands write tables for people, whatever they are about."""

import os
import sys
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table

WIDE: Final = 1000
"""Where no terminal sets a width, a row is one line, for grep and awk."""


def console() -> Console:
    """Colours only on a terminal, and never with NO_COLOR; rich minds both."""
    return Console(highlight=False, width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDE)


def columns(*titles: str) -> Table:
    """An empty table. Columns by their titles; `>` puts one to the right."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for title in titles:
        made.add_column(title.lstrip(">"), justify="right" if title.startswith(">") else "left", overflow="fold")
    return made


def words(text: str) -> str:
    """One line, without anything that would steer a terminal: users write names, comments and reasons."""
    return "".join(each if each.isprintable() else " " for each in text)
