"""What people see of a NodeSet."""

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given, settings
from tests.unit.operator.nodeset.factories import NEW, OLD, bare, entry, member, members, nodeset

from sunk.kube.core import ContainerStatus
from sunk.model import names
from sunk.model.nodeset import Condition, NodeSetStatus
from sunk.operator.nodeset.decide.membership import Membership
from sunk.operator.nodeset.decide.status import Findings, listed, status
from sunk.operator.nodeset.observe.members import Member, member_list
from sunk.operator.nodeset.observe.snapshot import Candidate

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def seen(  # noqa: PLR0913 - one for each thing that shows
    *present: Member,
    before: NodeSetStatus | None = None,
    desired: int | None = None,
    findings: Findings | None = None,
    held: int = 0,
    joins: tuple[Candidate, ...] = (),
    generation: int = 7,
) -> NodeSetStatus:
    wanted = len(present) if desired is None else desired
    membership = Membership(
        member_list(present), joins=joins, dropped=(), desired=wanted, feasible=len(present), held=held
    )
    owner = nodeset(meta={"generation": generation})
    return status(
        owner.metadata,
        before=before or NodeSetStatus(),
        membership=membership,
        findings=findings or Findings(revision=NEW),
    )


def said(found: NodeSetStatus, kind: str) -> Condition:
    (one,) = [one for one in found.conditions if one.type == kind]
    return one


def test_the_numbers_are_those_of_members_and_their_pods() -> None:
    found = seen(
        member("a"),
        member("b", ready=False),
        member("c", drained=True, revision=OLD),
        member("d", mark="x"),
        member("e", state="leaving", unfit="label"),
        bare("f"),
        desired=6,
    )
    assert found.current_number_scheduled == found.replicas == 5
    assert found.number_ready == 4
    assert found.number_drain == 1
    assert found.number_misscheduled == 1
    assert found.updated_number_scheduled == 4
    assert found.number_unavailable == 6 - 2  # a and c can be counted upon
    assert found.members == 6


def test_the_selector_finds_the_pods_of_this_set_only() -> None:
    assert seen().selector == f"{names.COMPONENT}=compute,{names.NODESET}=gpu"


def test_all_ready_is_said_with_the_generation_it_is_about() -> None:
    found = said(seen(member()), "Ready")
    assert (found.status, found.reason, found.observed_generation) == ("True", "AllReady", 7)
    assert found.message == "1 of 1 nodes ready"


def test_too_few_nodes_that_fit_are_said_with_where_to_look() -> None:
    found = said(seen(member(), desired=3), "Ready")
    assert found.status == "False"
    assert found.message == ("1 of 3 nodes ready; only 1 Node fits: check required node affinity, taints and requests")


def test_a_script_that_keeps_a_node_out_of_slurm_is_told_with_pod_name_and_code() -> None:
    failed = member("gpu-1", ready=False)
    assert failed.pod is not None
    ended = {"terminated": {"exitCode": 7, "message": "init: oneshot disks exited with code 7: no such device"}}
    container = msgspec.convert({"name": "slurmd", "state": {"waiting": {}}, "lastState": ended}, ContainerStatus)
    now = msgspec.structs.replace(failed.pod.status, container_statuses=(container,))
    failed = msgspec.structs.replace(failed, pod=msgspec.structs.replace(failed.pod, status=now))
    found = said(seen(member(), failed), "Ready")
    assert (found.status, found.reason) == ("False", "NodesMissing")
    assert found.message == "1 of 2 nodes ready; gpu-1: oneshot disks exited with code 7: no such device"


def test_a_generation_that_was_not_acted_upon_is_not_called_observed() -> None:
    before = NodeSetStatus(observed_generation=6)
    assert seen(before=before, findings=Findings(revision=NEW, done=False)).observed_generation == 6
    assert seen(before=before).observed_generation == 7


def test_a_condition_that_stays_keeps_its_time_and_one_that_turns_gets_a_new_one() -> None:
    old = Condition("Ready", "True", LONG_AGO, "AllReady")
    before = NodeSetStatus(conditions=(old,))
    assert said(seen(member(), before=before), "Ready").last_transition_time == LONG_AGO
    assert said(seen(bare(), before=before), "Ready").last_transition_time > LONG_AGO


@pytest.mark.parametrize(
    ("present", "joins"),
    [
        ([bare(state="leaving")], ()),
        ([member(revision=OLD)], ()),
        ([member(terminating=True)], ()),
        ([], (Candidate(node="n", name="gpu-1"),)),
    ],
    ids=["leaving", "older template", "being deleted", "joining"],
)
def test_progress_is_said_while_something_is_under_way(present: list[Member], joins: tuple[Candidate, ...]) -> None:
    assert said(seen(*present, joins=joins), "Progressing").status == "True"


def test_nothing_is_under_way_where_all_is_as_it_should_be() -> None:
    assert said(seen(member()), "Progressing").reason == "Settled"


def test_members_that_slurm_does_not_let_go_are_named() -> None:
    findings = Findings(revision=NEW, blocked=[("gpu-0", "in reservation maint")])
    found = said(seen(bare(state="leaving"), findings=findings), "Progressing")
    assert found.reason == "Blocked"
    assert "gpu-0: in reservation maint" in found.message


def test_a_refused_template_is_said() -> None:
    found = said(seen(findings=Findings(revision=NEW, problem="no container slurmd")), "TemplateValid")
    assert (found.status, found.message) == ("False", "no container slurmd")


def test_names_in_use_are_said() -> None:
    found = said(seen(findings=Findings(revision=NEW, refused=[("node-1", "gpu-1 is in use")])), "NamesUnique")
    assert (found.status, found.message) == ("False", "node-1: gpu-1 is in use")


def test_a_held_set_says_how_to_go_on() -> None:
    found = said(seen(*(member(f"gpu-{n}", unfit="label") for n in range(6)), held=6), "Held")
    assert (found.status, found.reason) == ("True", "TooManyLost")
    assert found.message.startswith("6 of 6 members no longer fit")
    assert f"{names.ACCEPT_LOSS}=6" in found.message


def test_the_current_revision_follows_when_all_pods_have_it() -> None:
    before = NodeSetStatus(current_revision=OLD)
    mixed = seen(member("a"), member("b", revision=OLD), before=before)
    assert (mixed.current_revision, mixed.update_revision) == (OLD, NEW)
    assert seen(member("a"), before=before).current_revision == NEW
    assert seen(before=before).current_revision == OLD
    assert seen().current_revision == NEW


def test_a_message_is_never_too_long_for_a_condition() -> None:
    assert len(said(seen(findings=Findings(revision=NEW, problem="x" * 10_000)), "TemplateValid").message) == 1000


def test_of_many_things_some_are_listed() -> None:
    many = [(f"node-{number}", "in use") for number in range(8)]
    assert listed(many).endswith("node-4: in use; and 3 more")
    assert listed(many[:2]) == "node-0: in use; node-1: in use"


@settings(deadline=None)
@given(present=members())
def test_the_same_again_is_the_same_status_so_nothing_is_written(present: tuple[Member, ...]) -> None:
    once = seen(*present)
    assert seen(*present, before=once) == once


def test_entries_count_also_where_there_is_no_pod() -> None:
    assert seen(Member(entry())).members == 1
