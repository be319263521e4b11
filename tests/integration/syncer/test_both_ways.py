"""The shortest way there and back: a cordon drains, a drain shows, and neither is taken for the other."""

from tests.integration.syncer.stage import Stage, on_stage
from tests.versions import BOTH

from sunk.model import names

pytestmark = on_stage
VERSIONS = BOTH


async def test_a_cordon_drains_and_an_uncordon_takes_it_back(stage: Stage) -> None:
    await stage.join("a1")
    await stage.mark("a1", {names.CORDON: "disk"})
    await stage.drained("a1", "k8s: cordon: disk")
    await stage.condition("a1", names.SLURM_DRAIN, "True", reason="FromKubernetes", message="k8s: cordon: disk")
    await stage.mark("a1", {names.CORDON: None})
    await stage.free("a1")
    await stage.condition("a1", names.SLURM_DRAIN, "False")


async def test_a_drain_by_a_person_shows_on_the_pod(stage: Stage) -> None:
    await stage.join("b1")
    await stage.scontrol("update", "nodename=b1", "state=drain", "reason=bad fan")
    await stage.condition("b1", names.SLURM_DRAIN, "True", reason="FromSlurm", message="bad fan")
    await stage.label("b1", names.DRAIN, "true")
    await stage.scontrol("update", "nodename=b1", "state=undrain")
    await stage.condition("b1", names.SLURM_DRAIN, "False")


async def test_what_was_drained_while_the_syncer_was_dead_is_seen_when_it_is_back(stage: Stage) -> None:
    await stage.join("c1")
    stage.syncer.kill()
    await stage.mark("c1", {names.CORDON: "fan"})
    stage.syncer.start()
    await stage.drained("c1", "k8s: cordon: fan")
