"""Whatever happens on both sides, and whoever is killed meanwhile: no law is broken, and the end is the right one.

A random history of cordons, drains, jobs, Pods, Nodes, templates and faults is played to a NodeSet with real slurmd,
the whole operator and the syncer. `sunk verify` watches both sides. When it is over and everybody answers again, Slurm,
Pods and Nodes must come to what the pure rules say, and what persons wrote must stand.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from tests.integration.syncer.history.world import MACHINES, Act, World, world
from tests.integration.syncer.stage import Stage, on_stage

from sunk.operator.nodeset import controller
from sunk.operator.nodeset.act import ratelimit
from sunk.operator.nodeset.observe import reader

pytestmark = on_stage
SYNCER = (
    *("--not-ready-after", "1", "--wave-delay", "3", "--clock-skew", "1", "--calm", "1"),
    *("--restart-unknown-after", "20", "--forget-after", "5"),
)
ON_KUBERNETES = ("cordon", "cordon", "uncordon", "out", "back", "delete_pod", "unready", "ready", "verify")
ON_SLURM = ("drain", "drain", "lift", "down", "extra", "job", "job")
ON_THE_SET = ("replicas", "template", "features")
FAULTS = (
    *("kill_syncer", "start_syncer", "kill_operator", "start_operator"),
    *("stop_slurmctld", "start_slurmctld", "wait", "wait"),
)
VARIETY = 5


def acts(kinds: tuple[str, ...]) -> st.SearchStrategy[Act]:
    return st.builds(Act, st.sampled_from(kinds), st.integers(0, MACHINES - 1), st.integers(0, 5))


def histories(*, least: int, most: int) -> st.SearchStrategy[list[Act]]:
    each = st.one_of(*map(acts, (ON_KUBERNETES, ON_SLURM, ON_THE_SET, FAULTS)))
    # Hypothesis likes to begin with the same thing over and over, from which nobody learns anything.
    return st.lists(each, min_size=least, max_size=most).filter(
        lambda found: len({one.what for one in found}) > VARIETY
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(stage: Stage) -> AsyncIterator[World]:
    """One for all histories: each begins with everybody in service, and with whatever the last one has left behind."""
    with pytest.MonkeyPatch.context() as patched:
        # What is meant for machines and people is shortened, so that the end of a history is near.
        patched.setattr(reader, "GRACE", 0.3)
        patched.setattr(controller, "MENDED", 0.3)
        patched.setattr(ratelimit, "FIRST", 0.05)
        patched.setattr(ratelimit, "LONGEST", 0.2)
        patched.setattr(ratelimit, "PAUSE", 0.1)
        async with world(stage) as made:
            yield made


async def played(world: World, history: list[Act]) -> None:
    if world.failure:
        raise world.failure  # what a repetition finds in a world that went wrong would hide why it did
    try:
        await world.restore()
        for act in history:
            await world.play(act)
        await world.calm()
        await world.judge()
    except Exception as error:
        world.failure = error
        raise


BUDGET = settings(
    deadline=None,
    phases=[Phase.generate],  # the world has another past at the next try, so a smaller history proves nothing
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    print_blob=False,
    database=None,
)


@given(history=histories(least=8, most=14))
@settings(BUDGET, max_examples=3, derandomize=True)
@pytest.mark.timeout(1200)
async def test_a_random_history_breaks_no_law_and_ends_as_the_rules_say(shared: World, history: list[Act]) -> None:
    await played(shared, history)


@given(history=histories(least=15, most=40))
@settings(BUDGET, max_examples=12)
@pytest.mark.full
@pytest.mark.timeout(2400)
async def test_many_random_histories_break_no_law_and_end_as_the_rules_say(shared: World, history: list[Act]) -> None:
    await played(shared, history)
