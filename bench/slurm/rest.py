"""slurmrestd as its quickest client would use it: HTTP over a unix socket, and JSON straight into structs.

Only some of the fields are decoded; what is not declared here is skipped, which is as cheap as a client can have it.
It runs beside slurmrestd, with a name of a table on each line of standard input: slurmrestd asks the kernel for the
process at the other end, and refuses one that it cannot see.
"""

import http.client
import socket
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

SOCKET = Path("/home/rest/socket")
VERSION = "v0.0.42"


class Number(Struct, frozen=True, gc=False):
    """A number of slurmrestd, which may be none."""

    set: bool
    infinite: bool
    number: float


class Node(Struct, frozen=True, gc=False):
    """A node, with the fields that most of our parts look at."""

    name: str
    state: tuple[str, ...]
    reason: str
    reason_changed_at: Number
    reason_set_by_user: str
    features: tuple[str, ...]
    active_features: tuple[str, ...]
    gres: str
    gres_used: str
    cpus: int
    alloc_cpus: int
    real_memory: int
    alloc_memory: int
    address: str
    hostname: str
    partitions: tuple[str, ...]
    extra: str
    comment: str
    boot_time: Number
    slurmd_start_time: Number


class Job(Struct, frozen=True, gc=False):
    """A job, likewise."""

    job_id: int
    array_job_id: Number
    name: str
    user_id: int
    account: str
    partition: str
    qos: str
    job_state: tuple[str, ...]
    state_reason: str
    nodes: str
    cpus: Number
    node_count: Number
    tres_alloc_str: str
    gres_detail: tuple[str, ...]
    submit_time: Number
    start_time: Number
    end_time: Number
    priority: Number
    restart_cnt: int
    dependency: str
    extra: str
    comment: str


class Nodes(Struct, frozen=True):
    """What GET …/nodes/ answers, and `scontrol show nodes --json` prints."""

    nodes: tuple[Node, ...]


class Jobs(Struct, frozen=True):
    """What GET …/jobs/ answers, and `squeue --json` prints."""

    jobs: tuple[Job, ...]


DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    "nodes": msgspec.json.Decoder(Nodes),
    "jobs": msgspec.json.Decoder(Jobs),
}


class Read(Struct, frozen=True):
    """One read: how long it took, what the JSON of it weighs, and how many rows it gave."""

    seconds: float
    bytes: int
    rows: int


class Connection(http.client.HTTPConnection):
    """HTTP to a unix socket."""

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(SOCKET))


def read(table: str) -> Read:
    began = time.monotonic()
    connection = Connection("localhost", timeout=120)
    connection.request("GET", f"/slurm/{VERSION}/{table}/")
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != http.client.OK:
        raise SystemExit(f"slurmrestd answered {answer.status} to a read of {table}: {text[:500]!r}")
    rows = decode(table, text)
    connection.close()
    return Read(seconds=time.monotonic() - began, bytes=len(text), rows=rows)


def decode(table: str, text: bytes) -> int:
    """Decode, and give the number of rows."""
    return len(getattr(DECODERS[table].decode(text), table))


if __name__ == "__main__":
    for line in sys.stdin:
        print(msgspec.json.encode(read(line.strip())).decode(), flush=True)
