"""A Slurm with ten thousand jobs: see `tests/slurm/crowded`."""

import pytest

from sunk.local import slurm as slurms
from sunk.local.slurm import pytest_inside

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]


def test_the_texts_of_ten_thousand_jobs_do_not_fill_the_memory() -> None:
    with slurms.cluster(nodes=("n1",), config={"MaxJobCount": 20_000}) as it:
        assert {each.outcome for each in pytest_inside(it, "tests/slurm/crowded", timeout=1600.0)} == {"passed"}
