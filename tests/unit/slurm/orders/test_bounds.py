"""What is never sent to Slurm is told by its name."""

import pytest
from hypothesis import given, settings, strategies as st

from sunk.slurm.libslurm.description import JobDescription
from sunk.slurm.libslurm.wire import NodeChange
from sunk.slurm.orders import bounds


@settings(deadline=None)
@given(length=st.integers(0, 2000))
def test_a_text_of_a_job_is_counted_in_bytes(length: int) -> None:
    wanted = JobDescription(comment="ü" * length)
    if 2 * length <= bounds.JOB_TEXT:
        bounds.check_job(wanted)
    else:
        with pytest.raises(ValueError, match="the comment of a job is"):
            bounds.check_job(wanted)


@settings(deadline=None)
@given(value=st.integers())
def test_a_number_is_a_number_or_refused(value: int) -> None:
    if 0 <= value < 2**16 - 2:
        bounds.check_job(JobDescription(cpus_per_task=value))
    else:
        with pytest.raises(ValueError, match="the cpus_per_task of a job must be between 0 and 65,533"):
            bounds.check_job(JobDescription(cpus_per_task=value))


def test_every_number_and_text_of_a_description_has_a_bound_or_is_one_that_slurm_bounds() -> None:
    """A field that is added later has to be thought of."""
    numbers = {field for field, kind in JobDescription.__annotations__.items() if kind == int | None}
    assert numbers == set(bounds.NUMBERS)


def test_nothing_of_a_long_text_gets_into_the_message() -> None:
    with pytest.raises(ValueError, match="reason of nodes") as raised:
        bounds.check_change(NodeChange(names="n1", reason="x" * 100_000))
    assert len(str(raised.value)) < 100


def test_what_is_usual_passes() -> None:
    bounds.check_change(NodeChange(names="n1", reason="k8s: cordon", features="a,b", extra="{}", comment=""))
    bounds.check_job(JobDescription(name="a", memory=1000, min_nodes=1, time_limit=60))
