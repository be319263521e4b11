"""How Pods get another template: within a budget, never without a clearance, and back again."""

from typing import Any

import msgspec
from tests.conftest import Kube
from tests.integration.nodeset.conftest import Staging
from tests.integration.nodeset.stage import Operator, Stage, eventually, message, says
from tests.integration.nodeset.witness import Witness

from sunk.kube.api.client import Scope
from sunk.kube.core import PODS, Pod
from sunk.kube.tasks import running
from sunk.model import names
from sunk.objects.computepods import pending_deletion, ready
from sunk.objects.nodesets import REVISIONS, ControllerRevision

ONE = {"rollingUpdate": {"maxUnavailable": 1}}
NEVER_READY: dict[str, Any] = {"fake-kubelet.sunk/ready": "false"}
UNSAID: dict[str, Any] = dict.fromkeys(NEVER_READY)


async def colours(stage: Stage) -> list[str]:
    return sorted(pod.metadata.annotations.get("colour", "") for pod in (await stage.pods()).values())


async def painted(stage: Stage, colour: str) -> None:
    await eventually(lambda: colours(stage), lambda found: found == [colour] * 3)


async def revisions(stage: Stage) -> list[ControllerRevision]:
    found = await stage.client.list(REVISIONS, Scope(namespace=stage.namespace))
    return sorted(found.items, key=lambda one: one.revision)


async def test_an_update_goes_round_within_its_budget(kube: Kube, staging: Staging) -> None:
    async with staging(nodes=4) as stage, Operator(kube), stage.syncer():
        witness = Witness(stage)
        async with running(witness.duties()):
            await stage.create(updateStrategy=ONE)
            await stage.settled(4)
            await stage.change(template=stage.template(colour="red"))
            await eventually(lambda: colours(stage), lambda found: found == ["red"] * 4)
            done = await stage.settled(4)
            await witness.caught_up()
        assert witness.judge() == []
        assert least_available(witness, of=4) == 3
        assert done.status.current_revision == done.status.update_revision
        assert done.status.updated_number_scheduled == 4


def least_available(witness: Witness, *, of: int) -> int:
    """The smallest number of Pods that were ready and unmarked, once all of them had been."""
    pods: dict[str, Pod] = {}
    least, began = of, False
    for seen in witness.history("pods"):
        name = seen.record.metadata.name
        if seen.gone:
            pods.pop(name, None)
        else:
            pods[name] = seen.record  # type: ignore[assignment]
        available = sum(ready(pod) and pending_deletion(pod) is None for pod in pods.values())
        began = began or available == of
        least = min(least, available) if began else least
    return least


async def test_nothing_is_replaced_without_a_clearance(stage: Stage, operator: Operator) -> None:
    await stage.create(updateStrategy=ONE)
    await stage.settled(3)
    await stage.change(template=stage.template(colour="red"))
    marked = await eventually(stage.marked, bool)
    assert list(marked.values()) == ["its template was changed"]
    await stage.annotate(x="y")
    await eventually(stage.nodeset, lambda one: one.status.number_unavailable == 1)
    assert len(await stage.marked()) == 1
    assert operator.deleted() == []


async def test_a_replacement_that_does_not_get_ready_stops_the_rollout_until_it_is_mended(
    stage: Stage, operator: Operator
) -> None:
    """M14."""
    async with stage.syncer():
        await stage.create(updateStrategy=ONE)
        await stage.settled(3)
        await stage.change(template=stage.template(colour="red", **NEVER_READY))
        await eventually(lambda: colours(stage), lambda found: found == ["", "", "red"])
        red = [name for name, pod in (await stage.pods()).items() if "colour" in pod.metadata.annotations]
        await stage.running(red[0])
        # A Node's labels change in the middle of it: another reason to look, and none to go on.
        await stage.label(stage.nodes[0], other="x")
        await eventually(stage.nodeset, lambda one: one.status.number_unavailable == 1)
        assert await colours(stage) == ["", "", "red"]
        assert len(operator.deleted()) == 1
        await stage.change(template=stage.template(colour="blue", **UNSAID))
        await eventually(lambda: colours(stage), lambda found: found == ["blue"] * 3)
        await stage.settled(3)


async def test_a_broken_template_is_said_and_the_pods_stay(stage: Stage, operator: Operator) -> None:
    await stage.create()
    await stage.settled(3)
    await stage.change(template={"spec": {"dnsPolicy": "Nonsense"}})
    told = await stage.told("TemplateValid", holds=False)
    assert "dnsPolicy" in told
    assert "dnsPolicy" in await stage.event("TemplateRefused")
    assert await stage.marked() == {}
    assert operator.deleted() == []
    assert len(await stage.pods()) == 3
    await stage.change(template={"spec": {"dnsPolicy": "Default"}})
    async with stage.syncer():
        await stage.told("TemplateValid", holds=True)
        await stage.settled(3)


async def test_a_template_without_slurmd_is_said_and_the_pods_stay(stage: Stage, operator: Operator) -> None:
    await stage.create()
    await stage.settled(3)
    await stage.change(template=stage.template(spec={"containers": [{"name": "main", "image": "none"}]}))
    assert "slurmd" in await stage.told("TemplateValid", holds=False)
    assert "slurmd" in await stage.event("TemplateRefused")
    assert operator.deleted() == []
    assert await stage.marked() == {}


async def test_a_set_that_begins_with_a_broken_template_says_so_and_makes_nothing(
    stage: Stage, operator: Operator
) -> None:
    del operator
    await stage.create(template={"spec": {"containers": [{"name": "main", "image": "none"}]}})
    found = await eventually(stage.nodeset, lambda one: bool(message(one, "TemplateValid")))
    assert not says(found, "TemplateValid")
    assert await stage.pods() == {}
    assert await stage.entries() == {}


async def test_a_scale_in_goes_on_while_the_template_is_broken(stage: Stage, operator: Operator) -> None:
    del operator
    async with stage.syncer():
        await stage.create()
        await stage.settled(3)
        await stage.change(template={"spec": {"dnsPolicy": "Nonsense"}}, replicas=1)
        await eventually(stage.entries, lambda found: len(found) == 1)
    assert len(await stage.pods()) == 1


async def test_on_delete_leaves_it_to_a_person(stage: Stage, operator: Operator) -> None:
    await stage.create(updateStrategy={"type": "OnDelete"})
    await stage.settled(3)
    await stage.change(template=stage.template(colour="red"))
    await eventually(stage.nodeset, lambda one: one.status.observed_generation == one.metadata.generation)
    assert await stage.marked() == {}
    await stage.client.delete(PODS, "gpu-000-002", namespace=stage.namespace)
    await eventually(lambda: colours(stage), lambda found: found == ["", "", "red"])
    assert operator.deleted() == []


async def test_an_old_template_that_comes_back_is_the_revision_that_it_was(stage: Stage, operator: Operator) -> None:
    del operator
    async with stage.syncer():
        await stage.create(updateStrategy={"rollingUpdate": {"maxUnavailable": "100%"}}, revisionHistoryLimit=2)
        first = (await stage.settled(3)).status.update_revision
        for colour in ("red", "blue"):
            await stage.change(template=stage.template(colour=colour))
            await painted(stage, colour)
            await stage.settled(3)
        history = await revisions(stage)
        assert [one.revision for one in history] == [1, 2, 3]
        await stage.change(template=stage.template(colour=None))
        await eventually(lambda: colours(stage), lambda found: found == [""] * 3)
        done = await stage.settled(3)
    assert done.status.update_revision == first
    assert done.status.current_revision == first
    again = await revisions(stage)
    assert [one.metadata.name for one in again][-1] == f"gpu-{first}"
    assert again[-1].revision == 4
    assert again[-1].metadata.uid == history[0].metadata.uid


async def test_old_templates_are_forgotten_when_there_are_too_many(stage: Stage, operator: Operator) -> None:
    del operator
    await stage.create(revisionHistoryLimit=1, replicas=0)
    for number in range(4):
        await stage.change(template=stage.template(colour=str(number)))
        await eventually(stage.nodeset, lambda one: one.status.observed_generation == one.metadata.generation)
    found = await eventually(lambda: revisions(stage), lambda found: len(found) <= 2)
    assert _colour(found[-1]) == "3"


def _colour(one: ControllerRevision) -> Any:
    return msgspec.json.decode(one.data)["spec"]["template"]["metadata"]["annotations"]["colour"]


async def test_a_rollback_in_mid_rollout_takes_the_marks_off(stage: Stage, operator: Operator) -> None:
    await stage.create(updateStrategy={"rollingUpdate": {"maxUnavailable": 2}})
    await stage.settled(3)
    operator.leads = False
    await stage.change(template=stage.template(colour="red"))
    marked = await eventually(stage.marked, lambda found: len(found) == 2)
    await stage.clear(next(iter(marked)))
    await stage.change(template=stage.template(colour=None))
    await eventually(stage.marked, lambda found: not found)
    operator.leads = True
    await stage.settled(3)
    assert operator.deleted() == []
    assert all(names.CLEAR_TO_DELETE not in pod.metadata.annotations for pod in (await stage.pods()).values())


async def test_a_template_whose_pods_cannot_start_can_be_mended(stage: Stage, operator: Operator) -> None:
    """No slurmd ever ran there, so there is nothing to ask a syncer about."""
    del operator
    await stage.create(template=stage.template(**{"fake-kubelet.sunk/start-after": "1h"}))
    await eventually(stage.pods, lambda pods: len(pods) == 3)
    await stage.change(template=stage.template(**{"fake-kubelet.sunk/start-after": "0s"}))
    await stage.settled(3)
