"""The example on the page about Slurm does what the page says."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from tests.slurm.asking import node

from sunk.slurm.libslurm.description import JobDescription
from sunk.slurm.libslurm.library import Library
from sunk.slurm.mirror.mirror import Mirror
from sunk.slurm.orders.jobs import JobOrders
from sunk.slurm.orders.nodes import Orders

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "slurm.md"
NAMES = (JobDescription, JobOrders, Library, Mirror, Orders)


async def test_the_example_drains_a_node_and_allocates_a_job(
    library: Library, capsys: pytest.CaptureFixture[str]
) -> None:
    example = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert example
    known: dict[str, Any] = {each.__name__: each for each in NAMES}
    exec(example[1], known)  # noqa: S102 (a page of our own)
    async with asyncio.timeout(120):
        await known["main"]()
    said = capsys.readouterr().out
    assert "drained ('n1',) not there ('ghost',)" in said
    assert "n1 can go, it runs nothing: k8s: cordon: disk" in said
    assert "n1 changed" in said
    assert re.search(r"job \d+ on (\w+) Allocation\(job=\d+, nodes='\1', cpus=\(1,\)\)", said)
    assert not (await node(library, "n1")).state.draining
