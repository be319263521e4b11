"""slurmctld goes away and comes back."""

import pytest
from tests.slurm.asking import NODES, until_saved

from sunk.local.slurm.remote import Remote
from sunk.slurm.errors import Unreachable
from sunk.slurm.libslurm.library import Library
from sunk.slurm.orders.nodes import Orders


async def test_a_loss_is_told_and_ends_by_itself(library: Library, orders: Orders, cluster: Remote) -> None:
    await orders.set_comment(NODES, comment="seen")  # an order is written down soon, a registration may not be
    await until_saved(cluster, *NODES)
    born = await library.boot_time()
    cluster.stop("controller", with_signal=9)
    for ask in (library.nodes, library.jobs, library.statistics, library.boot_time):
        with pytest.raises(Unreachable):
            await ask()
    with pytest.raises(Unreachable, match="update nodes n1"):
        await orders.drain(["n1"], reason="k8s: test")
    assert not await library.ping()
    cluster.start("controller")
    assert await library.nodes() is not None
    assert await library.boot_time() > born
