"""The scripts of compute Pods that tell Slurm something about their own node: not over what a person has said."""

from collections.abc import Iterator

import pytest
from tests.unit.operator.slurmcluster.clusters import cluster

from sunk.local import slurm as slurms
from sunk.local.slurm import Slurm
from sunk.model.contract import hooks
from sunk.operator.slurmcluster.compute import scripts

BOB = "bob: bad fan"
OURS = "k8s: cordon"
NODE = {"SLURMD_NODENAME": "n1", "POD_NAME": "n1"}


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    # A resumed slurmd registers a moment later, which must not return a node to service that the next test sets DOWN.
    with slurms.cluster(nodes=1, config={"ReturnToService": 0}) as made:
        yield made


@pytest.fixture(autouse=True)
def _in_service(slurm: Slurm) -> Iterator[None]:
    yield
    slurm.attempt("scontrol", "update", "nodename=n1", "state=resume")
    slurm.expect("n1", "IDLE")


def told(slurm: Slurm, state: str, reason: str) -> None:
    slurm.run("scontrol", "update", "nodename=n1", f"state={state}", f"reason={reason}")


def run(slurm: Slurm, name: str, *words: str) -> None:
    slurm.run("bash", "-s", "--", *words, stdin=scripts.around_jobs(cluster())[name], on="n1", env=NODE)


def seen(slurm: Slurm) -> tuple[frozenset[str], str]:
    reason = slurm.run("sinfo", "--noheader", "--nodes=n1", "--format=%E").strip()
    return slurm.states()["n1"], reason


@pytest.mark.parametrize("state", ["fail", "drain"])
def test_a_sick_node_keeps_what_a_person_said(slurm: Slurm, state: str) -> None:
    told(slurm, state, BOB)
    run(slurm, "sick", "epilog ended with 1")
    states, reason = seen(slurm)
    assert state.upper() in states
    assert reason == BOB


def test_a_reason_of_ours_is_said_only_where_nothing_is_said_yet(slurm: Slurm) -> None:
    told(slurm, "drain", OURS)
    run(slurm, "sick", hooks.UNREACHED)
    assert seen(slurm)[1] == OURS
    told(slurm, "resume", "")
    run(slurm, "sick", hooks.UNREACHED)
    assert seen(slurm)[1] == hooks.UNREACHED


def test_a_sick_node_is_drained_over_ours(slurm: Slurm) -> None:
    told(slurm, "drain", OURS)
    run(slurm, "sick", "epilog", "ended with 1")
    assert seen(slurm)[1] == "epilog ended with 1"


@pytest.mark.parametrize("state", ["fail", "drain"])
def test_a_node_that_leaves_keeps_what_a_person_said(slurm: Slurm, state: str) -> None:
    told(slurm, state, BOB)
    run(slurm, "leave")
    states, reason = seen(slurm)
    assert {"DOWN", state.upper()} <= states
    assert reason == BOB
