"""A slurmctld by a script: what a mirror is told, second by second, which no real one can be made to say."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from tests.unit.slurm.blank import blank

from sunk.slurm.errors import Unreachable
from sunk.slurm.mirror.mirror import Mirror
from sunk.slurm.mirror.reading import NOT_NOW
from sunk.slurm.records import Configuration, Job, Node, Partition, Reservation, Table, Tables

Row = Node | Job | Partition | Reservation
TABLES = {Node: "nodes", Job: "jobs", Partition: "partitions", Reservation: "reservations"}
RUNNING, COMPLETED = 1, 3


def node(name: str, *, reason: str = "") -> Node:
    return blank(Node, name=name, reason=reason)


def job(number: int, *, state: int = RUNNING, **fields: object) -> Job:
    """A job that was submitted long ago, with no limit."""
    return blank(Job, **{"id": number, "state_bits": state, "time_limit": None} | fields)


def partition(name: str) -> Partition:
    return blank(Partition, name=name)


def reservation(name: str) -> Reservation:
    return blank(Reservation, name=name)


def now() -> float:
    return asyncio.get_running_loop().time()


class Server:
    """What a slurmctld answers, by a script: tables with the second of their last change, and nothing else."""

    def __init__(self, *rows: Row) -> None:
        self.offset = 1000
        self.boot = 1
        self.min_job_age = 300
        self.unreadable: tuple[str, ...] = ()
        """Of the nodes."""
        self.away: Exception | None = None
        self.delay = 0.01
        self.asked: list[tuple[str, int]] = []
        self.boots = 0
        """How often the time of its start was asked for."""
        self.meanwhile: Callable[[], None] | None = None
        """Done once, in the middle of the next read: when nodes have been read and jobs have not."""
        self._tables: dict[str, dict[Any, Any]] = {"nodes": {}, "jobs": {}, "partitions": {}, "reservations": {}}
        self._changed = dict.fromkeys(self._tables, self.clock)
        self.put(*rows)

    @property
    def clock(self) -> int:
        return int(now()) + self.offset

    @property
    def now(self) -> dict[str, dict[Any, Any]]:
        return {name: dict(rows) for name, rows in self._tables.items()}

    def put(self, *rows: Row) -> None:
        for row in rows:
            table, key = TABLES[type(row)], row.id if isinstance(row, Job) else row.name
            self._tables[table][key] = row
            self._changed[table] = self.clock

    def drop(self, *keys: str | int) -> None:
        for key in keys:
            table = "nodes" if isinstance(key, str) else "jobs"
            if self._tables[table].pop(key, None) is not None:
                self._changed[table] = self.clock

    def drop_in_silence(self, name: str) -> None:
        """As slurmctld does with its very last nodes."""
        del self._tables["nodes"][name]

    def drop_reservation(self, name: str) -> None:
        del self._tables["reservations"][name]
        self._changed["reservations"] = self.clock

    def restart(self, *, offset: int = 1000) -> None:
        self.offset = offset
        self.boot = max(self.boot + 1, self.clock)
        self._changed = dict.fromkeys(self._tables, self.clock)

    def reads(self, table: str = "nodes") -> list[int]:
        return [since for name, since in self.asked if name == table]

    async def _answer(self, table: str, since: int) -> Table[Any] | None:
        if since != NOT_NOW:
            self.asked.append((table, since))
        await asyncio.sleep(self.delay / 2)
        if self.away is not None:
            raise self.away
        spoilt = self.unreadable if table == "nodes" else ()
        found = Table(rows=tuple(self._tables[table].values()), updated=self.clock, unreadable=spoilt)
        unchanged = since == NOT_NOW or since - 1 >= self._changed[table]
        if table == "nodes" and self.meanwhile is not None:
            self.meanwhile()
            self.meanwhile = None
        await asyncio.sleep(self.delay / 2)
        return None if unchanged else found

    async def everything(self, since: Mapping[str, int]) -> Tables:
        nodes = asyncio.create_task(self._answer("nodes", since.get("nodes", 0)))
        try:
            others = ("jobs", "partitions", "reservations")
            jobs, partitions, reservations = [await self._answer(name, since.get(name, 0)) for name in others]
            return Tables(await nodes, jobs, partitions, reservations)
        finally:
            nodes.cancel()

    async def boot_time(self) -> int:
        self.boots += 1
        await asyncio.sleep(self.delay)
        if self.away is not None:
            raise self.away
        return self.boot

    async def configuration(self) -> Configuration:
        return blank(Configuration, boot_time=await self.boot_time(), min_job_age=self.min_job_age)


def gone() -> Unreachable:
    return Unreachable(1800, asked="read the nodes", text="nobody is there")


def view(mirror: Mirror) -> dict[str, dict[Any, Any]]:
    return {
        "nodes": {row.name: row for row in mirror.nodes.all()},
        "jobs": {row.id: row for row in mirror.jobs.all()},
        "partitions": {row.name: row for row in mirror.partitions.all()},
        "reservations": {row.name: row for row in mirror.reservations.all()},
    }


def told(mirror: Mirror) -> dict[Any, Any]:
    """What somebody knows who only listens; he is never told a change from something that he was not told before."""
    known: dict[Any, Any] = {}

    def hear(key: str | int, before: Node | Job | None, after: Node | Job | None) -> None:
        assert known.pop(key, None) == before
        assert before != after
        if after is not None:
            known[key] = after

    mirror.nodes.subscribe(hear)
    mirror.jobs.subscribe(hear)
    return known
