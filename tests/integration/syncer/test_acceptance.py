"""What Slurm says is hard to believe, and a person says that it is true."""

import asyncio
import re

from tests.integration.syncer.stage import CLUSTER, Stage, on_stage

from sunk.kube.api.patch import Merge
from sunk.model import names
from sunk.objects.slurmclusters import SLURMCLUSTERS

pytestmark = on_stage
SYNCER = ("--forget-after", "1")
WORD = re.compile(rf"slurmcluster {CLUSTER} {re.escape(names.ACCEPT_SUSPICION)}=(\w+)")


async def lost(stage: Stage) -> str:
    """Have most nodes vanish at once; give the word that accepts it. One must stay, or Slurm does not own up to it."""
    await stage.scontrol("create", "nodename=x[1-4]", "cpus=1", "state=cloud")
    await stage.scontrol("update", "nodename=x[1-4]", 'extra={"k8s": {"pod": "x"}}')
    await stage.held("4 Slurm nodes")
    await stage.scontrol("delete", "nodename=x[1-4]")
    found = await stage.held("disappeared at once")
    assert found is not None
    word = WORD.search(found.held)
    assert word is not None, found.held
    return word[1]


async def accept(stage: Stage, word: str) -> None:
    """Say so, and wait until that was heard."""
    patch = Merge({"metadata": {"annotations": {names.ACCEPT_SUSPICION: word}}})
    await stage.client.patch(SLURMCLUSTERS, CLUSTER, patch, namespace=stage.namespace)
    await stage.eventually(
        lambda: stage.client.get(SLURMCLUSTERS, CLUSTER, namespace=stage.namespace),
        lambda cluster: cluster.status.suspicion_answered == word,
    )
    # As the operator does.
    patch = Merge({"metadata": {"annotations": {names.ACCEPT_SUSPICION: None}}})
    await stage.client.patch(SLURMCLUSTERS, CLUSTER, patch, namespace=stage.namespace)
    # Until then the same word, said again, would look as if it were answered already.
    await stage.eventually(
        lambda: stage.client.get(SLURMCLUSTERS, CLUSTER, namespace=stage.namespace),
        lambda cluster: not cluster.status.suspicion_answered,
    )


async def told(stage: Stage, reason: str, text: str) -> None:
    """Wait for an Event."""
    await stage.eventually(lambda: stage.events(reason), lambda found: any(text in one.note for one in found))


async def test_only_the_word_for_what_was_lost_lets_deletions_go_on(stage: Stage) -> None:
    await stage.join("a1")
    word = await lost(stage)
    await stage.leave("a1")
    await stage.delete_pod("a1")
    await asyncio.to_thread(stage.slurm.kill, "a1")
    await stage.syncer_says("releasing no nodes for now: Slurm reports an implausible loss")

    await accept(stage, "0" * 8)
    await told(stage, "NothingAccepted", f"use {word} for: 4 of 5 nodes disappeared at once")
    assert (await stage.seen("a1")).known

    await accept(stage, word)
    await stage.slurm_when("a1", lambda node: not node.known)
    await told(stage, "SuspicionAccepted", "confirmed: 4 of 5 nodes disappeared at once")
    await stage.not_held()


async def test_what_is_lost_afterwards_wants_a_word_of_its_own(stage: Stage) -> None:
    await stage.join("b1")
    first = await lost(stage)
    await accept(stage, first)
    await stage.not_held()
    await lost(stage)
    await stage.kill_syncer()
    await stage.not_held()
    await accept(stage, first)
    await told(stage, "NothingAccepted", f'"{first}" is ignored: nothing to confirm')
    await stage.leave("b1")
    await stage.delete_pod("b1")
    await asyncio.to_thread(stage.slurm.kill, "b1")
    await stage.slurm_when("b1", lambda node: not node.known)
