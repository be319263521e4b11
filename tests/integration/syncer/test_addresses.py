"""slurmctld calls a node where it is not: neither of the two finds the other, and the syncer has the Pod recreated."""

from tests.integration.syncer.stage import Stage, on_stage

pytestmark = on_stage
# So that slurmctld soon notices that nobody answers.
SLURM = {"config": {"SlurmdTimeout": 20}}
SYNCER = ("--restart-unknown-after", "1")
NOBODY = "10.0.19.1"


async def test_a_pod_that_slurmctld_calls_elsewhere_is_recreated(stage: Stage) -> None:
    """M13: Slurm takes the address of a slurmd that starts; this is for the day when it did not."""
    for name in ("a1", "a2", "a3"):
        await stage.join(name)
    before = (await stage.pod("a1")).metadata.uid
    await stage.scontrol("update", "nodename=a1", f"nodeaddr={NOBODY}")
    found = await stage.eventually(lambda: stage.events("UnknownToSlurm"), bool, seconds=180)
    assert [one.note for one in found] == [
        f"replacing this Pod: slurmd is running, but slurmctld cannot reach it at {NOBODY}"
    ]
    await stage.eventually(stage.pod_names, lambda names: "a1" not in names)
    assert before
    assert {"a2", "a3"} <= await stage.pod_names()
