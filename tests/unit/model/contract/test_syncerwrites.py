"""The policies of the chart allow what the syncer is declared to write, and nothing else."""

import re
from pathlib import Path

import pytest
from tests.unit.operator.slurmcluster.clusters import cluster
from tests.unit.syncer.builders import pod, row

from sunk.model import names
from sunk.model.cluster.kind import OF_SYNCER
from sunk.model.contract import syncerwrites
from sunk.operator.slurmcluster.daemons.syncer import objects
from sunk.slurm.records import Node
from sunk.syncer.conditions.plan import NodeFacts, pod_conditions

TEMPLATES = Path(__file__).parents[4] / "charts" / "sunk" / "templates"
POLICY = (TEMPLATES / "syncerpolicy.yaml").read_text()


def allowed() -> list[set[str]]:
    """The lists of words in the policies, in their order."""
    lists = re.findall(r"\[('[^\]]+)\]", POLICY)
    return [set(re.findall(r"'([^']+)'", one)) for one in lists]


@pytest.mark.parametrize(
    "declared",
    [syncerwrites.POD_LABELS, syncerwrites.POD_ANNOTATIONS, syncerwrites.POD_CONDITIONS, OF_SYNCER],
)
def test_a_policy_allows_what_is_declared(declared: tuple[str, ...]) -> None:
    assert set(declared) in allowed()


def test_no_policy_allows_more() -> None:
    of_kubelets = {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"}
    kept = {"ownerReferences", "finalizers", "labels", "annotations", *of_kubelets}
    everything = {*syncerwrites.POD_LABELS, *syncerwrites.POD_ANNOTATIONS, *syncerwrites.POD_CONDITIONS, *OF_SYNCER}
    assert set().union(*allowed()) == everything | kept


def test_the_account_has_the_name_by_which_policies_know_it() -> None:
    made = cluster()
    account = next(one for one in objects(made) if one["kind"] == "ServiceAccount")
    assert account["metadata"]["name"] == f"{made.name}{syncerwrites.ACCOUNT_SUFFIX}"
    assert f"endsWith('{syncerwrites.ACCOUNT_SUFFIX}')" in (TEMPLATES / "_names.tpl").read_text()


@pytest.mark.parametrize("node", [row(), None], ids=["known", "unknown"])
def test_the_syncer_says_of_a_pod_what_is_declared(node: Node | None) -> None:
    said = pod_conditions(pod(), NodeFacts(node=node))
    assert [one.type for one in said.conditions] == list(syncerwrites.POD_CONDITIONS)
    assert set(said.labels) == set(syncerwrites.POD_LABELS)


def test_the_drain_comes_first_since_nodes_show_it_in_two_conditions() -> None:
    assert syncerwrites.POD_CONDITIONS[0] == names.SLURM_DRAIN
