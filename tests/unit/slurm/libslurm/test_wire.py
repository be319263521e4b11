"""A row that cannot be read spoils only itself."""

from msgspec import msgpack
from tests.unit.slurm.scripted import job

from sunk.slurm.libslurm.wire import Unpacker
from sunk.slurm.records import Job, Table


def test_a_table_comes_back_as_it_was_packed() -> None:
    table = Table(rows=(job(1), job(2)), updated=7)
    packed = msgpack.encode(((job(1), job(2)), 7))
    assert Unpacker(Job).decode(packed) == table


def test_a_row_of_another_shape_is_left_out_and_named() -> None:
    odd = list(msgpack.decode(msgpack.encode(job(2))))
    odd[-1] = 3.5
    found = Unpacker(Job).decode(msgpack.encode(((job(1), odd, "no row at all", job(4)), 7)))
    assert (found.rows, found.updated) == ((job(1), job(4)), 7)
    assert [text.partition(":")[0] for text in found.unreadable] == ["2", "(no name)"]
