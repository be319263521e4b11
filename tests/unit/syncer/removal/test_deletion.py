"""Records are deleted as they were seen, and not with what somebody has said of them since."""

from typing import cast

import pytest
from tests.unit.syncer.builders import row
from tests.unit.syncer.scripted import Slurm

from sunk.slurm.libslurm.library import Library
from sunk.slurm.orders.nodes import Orders

pytestmark = pytest.mark.looptime


async def test_a_drain_that_came_after_the_look_keeps_its_record() -> None:
    slurm = Slurm(row("n1"), row("n2"), row("n3"))
    orders = Orders(cast("Library", slurm))
    seen = {name: node for name in ("n1", "n2") if (node := slurm.node(name)) is not None}
    await orders.drain(["n1"], reason="alice: bad fan")
    outcome = await orders.delete(["n1", "n2", "n3", "gone"], seen=seen)
    assert outcome.done == ("gone", "n2")
    assert outcome.why == {"n1": "the node changed in the meantime", "n3": "the node changed in the meantime"}
    assert (await orders.delete(["n1", "n3"])).done == ("n1", "n3")
