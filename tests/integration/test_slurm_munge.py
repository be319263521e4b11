"""Slurm that knows its callers by munge: the binding needs nothing but the socket of munged beside it.

Only on 24.11: the image of 26.05 has munge's plugin for Slurm, but Debian no longer draws in munged with it.
"""

from collections.abc import Iterator

import pytest

from sunk.local import slurm as slurms
from sunk.local.slurm import Slurm
from sunk.local.slurm.boxes.box import SLURM_USER

DRAIN = """
import asyncio
from sunk.slurm.libslurm.library import Library
from sunk.slurm.orders.nodes import Orders

async def main():
    library = Library.load()
    print(await Orders(library).drain(["n1"], reason="k8s: by munge"))
    print({node.name: (node.state.draining, node.reason_uid) for node in (await library.all_nodes()).rows})
    library.close()

asyncio.run(main())
"""
READ = """
import asyncio
from sunk.slurm.errors import Unauthenticated
from sunk.slurm.libslurm.library import Library

async def main():
    library = Library.load()
    try:
        await library.all_nodes()
    except Unauthenticated as error:
        print("told:", error)
    library.close()

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def munged() -> Iterator[Slurm]:
    with slurms.cluster(nodes=1, munge=True) as it:
        yield it


def test_a_job_runs_and_the_binding_gives_orders(munged: Slurm) -> None:
    assert "auth/munge" in munged.run("scontrol", "show", "config", on="controller")
    assert munged.run("srun", "hostname", uid=1001) == "n1\n"
    told = munged.python("-c", DRAIN, uid=SLURM_USER)
    assert "done=('n1',)" in told
    assert f"{{'n1': (True, {SLURM_USER})}}" in told


def test_a_munge_that_is_away_is_no_proof_of_who_asks(munged: Slurm) -> None:
    folder = munged.layout.folder / "munge-run"
    socket = folder / "munge.socket.2"
    socket.rename(folder / "aside")
    try:
        assert "told: read the nodes" in munged.python("-c", READ, uid=SLURM_USER)
    finally:
        (folder / "aside").rename(socket)
