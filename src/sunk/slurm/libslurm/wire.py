"""The calls themselves: each blocks until slurmctld has answered, and leaves nothing of C behind.

Everything here runs on a thread of `library`, never on the event loop.

Tables are decoded as a whole, and row by row only where that fails: a row that a newer Slurm fills otherwise must not
cost all others. It is left out and named.
"""

import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec import DecodeError, Raw, Struct, ValidationError, msgpack

from sunk.model.faults import words
from sunk.slurm import errors
from sunk.slurm.libslurm import description, loading
from sunk.slurm.libslurm.description import JobDescription
from sunk.slurm.records import (
    Accounted,
    Allocation,
    Configuration,
    Job,
    Node,
    Partition,
    Reservation,
    Statistics,
    Table,
    Tables,
)

R = TypeVar("R", bound=Struct)


class Unpacker(Generic[R]):
    """Reads tables of one kind of row."""

    def __init__(self, kind: type[R]) -> None:
        table: Any = Table[kind]  # type: ignore[valid-type]
        self._table: msgpack.Decoder[Table[R]] = msgpack.Decoder(table)
        self._row: msgpack.Decoder[R] = msgpack.Decoder(kind)

    def decode(self, data: Any) -> Table[R]:
        try:
            return self._table.decode(data)
        except (DecodeError, ValidationError):
            return self._one_by_one(data)

    def _one_by_one(self, data: Any) -> Table[R]:
        packed = msgpack.decode(data, type=Table[Raw])
        rows: list[R] = []
        unreadable: list[str] = []
        for row in packed.rows:
            try:
                rows.append(self._row.decode(row))
            except (DecodeError, ValidationError) as wrong:
                unreadable.append(f"{_key(row)}: {words(wrong)}")
        return Table(rows=tuple(rows), updated=packed.updated, unreadable=tuple(unreadable))


def _key(row: Raw) -> str:
    """What stands first in a row: its name or number."""
    try:
        return str(msgpack.decode(row, type=tuple[Any, ...])[0])
    except (DecodeError, ValidationError, IndexError):
        return "(no name)"


T = TypeVar("T")
S_co = TypeVar("S_co", covariant=True)
LEAVE: Final = 0xFFFFFFFE
"""NO_VAL: a number that says "leave it as it is"."""


class Decoder(Protocol[S_co]):
    """What makes records of what C has packed."""

    def decode(self, data: Any, /) -> S_co: ...


class NodeChange(Struct, frozen=True):
    """What is to become different on some nodes; what is None stays. `names` is a hostlist."""

    names: str
    state: int = LEAVE
    reason: str | None = None
    extra: str | None = None
    comment: str | None = None
    features: str | None = None
    gres: str | None = None
    topology: str | None = None


class Expected(Struct, frozen=True):
    """What a node was like when a change was decided upon. `flags` are those of its state that have to be the same."""

    state: int
    flags: int
    reason: str
    reason_time: int


class Watched(Struct, frozen=True):
    """What was seen of a node around its change: as it was, what others put on meanwhile, and as it is now.

    If it was another one nothing was sent, and there is only what it was. With a trouble something was sent, and what it
    is now is missing; the trouble may be that of the read after it.
    """

    rows: tuple[Node, ...]
    trouble: errors.SlurmError | None = None

    @property
    def sent(self) -> bool:
        return len(self.rows) > 1 or self.trouble is not None

    @property
    def between(self) -> tuple[Node, ...]:
        return self.rows[1:-1] if self.trouble is None else self.rows[1:]


class Given(Struct, frozen=True):
    """A job that Slurm took. `nodes` is a hostlist, empty while it waits; `waits` is why, as an error number, or 0."""

    job: int
    nodes: str = ""
    waits: int = 0


class Wire:
    """libslurm in this process."""

    def __init__(self, configuration: Path | None = None) -> None:
        self.lib, self.ffi = self._lib, self._ffi = loading.load(configuration)
        lib = self._lib
        self.slurmdbd: Final = threading.Lock()
        """Held during a call to slurmdbd."""
        self._tables: Mapping[str, tuple[Callable[[int, Any], int], Decoder[Any]]] = {
            "nodes": (lib.sunk_nodes, Unpacker(Node)),
            "jobs": (lib.sunk_jobs, Unpacker(Job)),
            "partitions": (lib.sunk_partitions, Unpacker(Partition)),
            "reservations": (lib.sunk_reservations, Unpacker(Reservation)),
            "job": (lib.sunk_load_job, Unpacker(Job)),
            "allocation": (lib.sunk_allocation, msgpack.Decoder(Allocation)),
        }
        self._statistics = msgpack.Decoder(Statistics)
        self._configuration = msgpack.Decoder(Configuration)
        self._accounted = Unpacker(Accounted)
        # A job in which nothing is set, to copy. Every call of C, however short, lets go of the interpreter and has to
        # ask for it again, so there is one less for each job, and below none to free nothing.
        self._blank = self._ffi.new("job_desc_msg_t *")
        lib.slurm_init_job_desc_msg(self._blank)

    @property
    def version(self) -> tuple[int, int, int]:
        """Of the library."""
        number = self._lib.SLURM_VERSION_NUMBER
        return number >> 16, number >> 8 & 0xFF, number & 0xFF

    def table(self, name: str, key: int) -> Any:
        """Read one table; None if it has not changed since `key`. Of `job` and `allocation` it is the job's number."""
        read, decoder = self._tables[name]
        return self.decoded(lambda buffer: read(key, buffer), decoder, asked=f"read the {name}")

    def everything(self, since: Mapping[str, int]) -> Tables:
        """Read all tables at once. Those that have not changed since, or that are wanted since less than 0, are None."""
        answers = self._ffi.new("sunk_tables *")
        for name in Tables.__struct_fields__:
            getattr(answers, name).since = since.get(name, 0)
        try:
            self._lib.sunk_everything(answers)
            return Tables(**{name: self._answer(name, getattr(answers, name)) for name in Tables.__struct_fields__})
        finally:
            for name in Tables.__struct_fields__:
                self._free(self._ffi.addressof(answers, name, "rows"))

    def statistics(self) -> Statistics:
        found = self.decoded(self._lib.sunk_statistics, self._statistics, asked="read the statistics")
        assert found is not None  # noqa: S101 - statistics are never "unchanged"
        return found

    def boot_time(self) -> int:
        when = self._ffi.new("int64_t *")
        self._check(self._lib.sunk_boot_time(when), asked="read the configuration")
        return int(when[0])

    def configuration(self) -> Configuration:
        found = self.decoded(self._lib.sunk_configuration, self._configuration, asked="read the configuration")
        assert found is not None  # noqa: S101 - nor is this
        return found

    def accounted(self, cluster: str, jobs: Collection[int], since: int) -> Table[Accounted]:
        """Ask slurmdbd for these jobs, without rows that ended before `since`. May take many minutes."""
        name, numbers = self.text(cluster), self.text(",".join(map(str, jobs)))
        asked = f"ask accounting for {len(jobs)} jobs"
        with self.slurmdbd:
            found: Table[Accounted] | None = self.decoded(
                lambda buffer: self._lib.sunk_accounted(name, numbers, since, buffer), self._accounted, asked=asked
            )
        assert found is not None  # noqa: S101 - nor is this
        return found

    def ping(self) -> bool:
        return self._lib.sunk_ping() == 0

    def update_nodes(self, change: NodeChange) -> None:
        self._change(self._lib.sunk_update_nodes, change, verb="update")

    def update_if(self, change: NodeChange, expected: Expected) -> Watched:
        """Change one node if it is as expected. Raises where nothing was sent."""
        message, _held = self._message(change)
        as_seen = self._ffi.new("sunk_expected *")
        reason = as_seen.reason = self.text(expected.reason)
        as_seen.state, as_seen.flags, as_seen.reason_time = expected.state, expected.flags, expected.reason_time
        asked = f"update node {change.names}"
        found: Table[Node] | None = self.decoded(
            lambda buffer: self._lib.sunk_update_if(message, as_seen, buffer), self._tables["nodes"][1], asked=asked
        )
        del reason  # C has read it until now
        assert found is not None  # noqa: S101 - a single node is never "unchanged"
        return Watched(rows=found.rows, trouble=self.refusal(found.updated, asked=asked) if found.updated else None)

    def create_nodes(self, change: NodeChange) -> None:
        # slurmctld of every release so far ends by a creation without a node line.
        if not (change.extra or "").startswith("NodeName="):
            raise ValueError(f"a line that creates nodes must start with NodeName=, found {change.extra!r}")
        self._change(self._lib.sunk_create_nodes, change, verb="create")

    def delete_nodes(self, names: str) -> None:
        self._change(self._lib.sunk_delete_nodes, NodeChange(names=names), verb="delete")

    def reconfigure(self) -> None:
        self._check(self._lib.sunk_reconfigure(), asked="reconfigure")

    def submit(self, wanted: JobDescription) -> Given:
        return self._give(self._lib.sunk_submit, wanted, asked=f"submit job {wanted.name or 'without a name'}")

    def allocate(self, wanted: JobDescription) -> Given:
        return self._give(self._lib.sunk_allocate, wanted, asked=f"allocate job {wanted.name or 'without a name'}")

    def update_job(self, job: int, wanted: JobDescription) -> None:
        message, _held = description.filled(wanted, blank=self._blank, ffi=self._ffi)
        self._check(self._lib.sunk_update_job(message, job), asked=f"update job {job}")

    def kill_job(self, job: int, number: int, flags: int) -> None:
        self._check(self._lib.sunk_kill_job(job, number, flags), asked=f"send signal {number} to job {job}")

    def kill_step(self, job: int, step: int, number: int) -> None:
        code = self._lib.sunk_kill_step(job, step, number, 0)
        self._check(code, asked=f"send signal {number} to step {job}.{step}")

    def requeue(self, job: int, flags: int) -> None:
        self._check(self._lib.sunk_requeue(job, flags), asked=f"requeue job {job}")

    def decoded(self, read: Callable[[Any], int], decoder: Decoder[T], *, asked: str) -> T | None:
        buffer = self._ffi.new("sunk_buffer *")
        try:
            return self._taken(read(buffer), buffer, decoder, asked=asked)
        finally:
            self._free(buffer)

    def _answer(self, name: str, answer: Any) -> Any:
        return self._taken(answer.code, answer.rows, self._tables[name][1], asked=f"read the {name}")

    def _taken(self, code: int, buffer: Any, decoder: Decoder[T], *, asked: str) -> T | None:
        if code == errors.NO_CHANGE:
            return None
        self._check(code, asked=asked)
        return decoder.decode(self._ffi.buffer(buffer.data, buffer.size))

    def _change(self, send: Callable[[Any], int], change: NodeChange, *, verb: str) -> None:
        message, _held = self._message(change)
        self._check(send(message), asked=f"{verb} nodes {_short(change.names)}")

    def _message(self, change: NodeChange) -> tuple[Any, dict[str, Any]]:
        """A change for C, and its texts, which have to be held until the call is over."""
        message = self._ffi.new("sunk_change *")
        texts = {name: self.text(getattr(change, name)) for name in NodeChange.__struct_fields__ if name != "state"}
        for name, text in texts.items():
            setattr(message, name, text)
        message.state = change.state
        return message, texts

    def _give(self, send: Callable[[Any, Any], int], wanted: JobDescription, *, asked: str) -> Given:
        given = self._ffi.new("sunk_given *")
        try:
            message, _held = description.filled(wanted, blank=self._blank, ffi=self._ffi)
            self._check(send(message, given), asked=asked)
            return Given(job=given.job, nodes=self._nodes(given.nodes), waits=given.code)
        finally:
            self._free(self._ffi.addressof(given, "nodes"))

    def _free(self, buffer: Any) -> None:
        if buffer.data:
            self._lib.sunk_free(buffer)

    def _nodes(self, buffer: Any) -> str:
        return msgpack.decode(self._ffi.buffer(buffer.data, buffer.size), type=str) if buffer.size else ""

    def text(self, text: str | None) -> Any:
        """A text for C. It has to be held until the call is over."""
        return self._ffi.NULL if text is None else description.c_text(text, ffi=self._ffi)

    def _check(self, code: int, *, asked: str) -> None:
        if code:
            raise self.refusal(code, asked=asked)

    def refusal(self, code: int, *, asked: str) -> errors.SlurmError:
        text = self._ffi.string(self._lib.slurm_strerror(code)).decode(errors="replace")
        name = self._ffi.string(self._lib.sunk_error_name(code)).decode()
        return errors.refusal(code, asked=asked, text=text, name=name)


def _short(names: str) -> str:
    return names if len(names) <= 200 else f"{names[:200]}…"  # noqa: PLR2004 - enough to recognise them by
