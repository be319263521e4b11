"""How a benchmark says what it found: a table for people, a file for whoever compares."""

from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"


class Figure(msgspec.Struct, frozen=True):
    """One thing measured. A goal is the most it may be; without one it is for the record."""

    name: str
    value: float
    unit: str
    goal: float | None = None

    @property
    def ok(self) -> bool:
        return self.goal is None or self.value <= self.goal


def report(benchmark: str, figures: list[Figure]) -> None:
    """Print the table and write bench/results/<benchmark>.json."""
    rows = [{**msgspec.structs.asdict(each), "value": round(each.value, 3), "ok": each.ok} for each in figures]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{benchmark}.json").write_bytes(msgspec.json.format(msgspec.json.encode(rows)) + b"\n")
    table = Table("what", "measured", "goal", "", title=benchmark, title_justify="left")
    for each in figures:
        goal = "" if each.goal is None else f"≤ {each.goal:g} {each.unit}"
        table.add_row(each.name, f"{each.value:.3g} {each.unit}", goal, "" if each.ok else "missed")
    Console().print(table)
