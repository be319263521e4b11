"""What slurmctld runs with, by its own word."""

import resource

from sunk.local.slurm.remote import Remote
from sunk.slurm.libslurm.library import Library


async def test_it_says_what_it_runs_with(library: Library, cluster: Remote) -> None:
    found = await library.configuration()
    lines = (line.partition("=") for line in cluster.run("scontrol", "show", "config").splitlines())
    shown = {name.strip(): value.strip() for name, _, value in lines}
    assert found.version == shown["SLURM_VERSION"]
    assert found.cluster == shown["ClusterName"]
    assert ",".join(found.parameters) == shown["SlurmctldParameters"]
    assert f"{found.unkillable_step_timeout} sec" == shown["UnkillableStepTimeout"]
    assert f"{found.kill_wait} sec" == shown["KillWait"]
    assert f"{found.slurmd_timeout} sec" == shown["SlurmdTimeout"]
    assert str(found.return_to_service) == shown["ReturnToService"]
    assert found.boot_time == await library.boot_time()


async def test_a_parameter_has_a_value_or_none(library: Library) -> None:
    found = await library.configuration()
    assert "enable_configless" in found.parameters
    assert found.parameter("enable_configless") == ""
    assert found.parameter("sunk_config") == ""


async def test_reading_it_a_thousand_times_leaves_nothing_behind(library: Library) -> None:
    async def grown(times: int) -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(times):
            await library.configuration()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    await grown(100)
    # Each answer is tens of kilobytes of text: kept, a thousand of them would be tens of megabytes.
    assert await grown(1000) < 8_000
