"""What is done about one node, whatever both sides say."""

from hypothesis import given, strategies as st
from msgspec.structs import replace
from tests.unit.syncer import builders
from tests.unit.syncer.builders import BEGAN, going, later, member, pod

from sunk.model.contract.drains import NOT_RESPONDING, Drain, DrainAction, Forget, Undrain, is_ours, text
from sunk.model.names import HPC_VERIFICATION
from sunk.slurm.orders.nodes import can_undrain
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase, NodeFlag
from sunk.syncer.drains.extra import kept_drain
from sunk.syncer.drains.plan import drain_action, verification_lifts
from sunk.syncer.drains.snapshot import NodeSnapshot, causes
from sunk.syncer.pods import ComputePod, ComputePodCondition

START = int(BEGAN.timestamp())
OFTEN = st.integers(0, 200)
REASONS = st.sampled_from(
    [
        "",
        "alice: bad fan",
        "Not responding",
        "NHC (verify-undrain)",
        "k8s: cordon: disk",
        "k8s: pod terminated",
        "k8s: pod not ready: cordon",
        "k8s: pending deletion",
        "k8s: pod deletion timeout",
        "k8s: of nobody",
    ]
)
FLAGS = st.sets(
    st.sampled_from(
        [
            NodeFlag.DRAIN,
            NodeFlag.FAIL,
            NodeFlag.POWERED_DOWN,
            NodeFlag.NOT_RESPONDING,
            NodeFlag.REBOOT_REQUESTED,
            NodeFlag.REBOOT_ISSUED,
        ]
    )
)
EXTRAS = st.sampled_from(["", "no JSON", '{"rack":7}', '{"k8s":{}}'])


@st.composite
def rows(draw: st.DrawFn) -> Node:
    return builders.row(
        "n1",
        *draw(FLAGS),
        base=draw(st.sampled_from(NodeBase)),
        reason=draw(REASONS),
        reason_time=START + draw(OFTEN),
        extra=draw(EXTRAS),
    )


@st.composite
def pods(draw: st.DrawFn) -> ComputePod | None:
    marks = {
        "cordon": draw(st.none() | st.sampled_from(["", "disk"])),
        "pending_deletion": draw(st.none() | st.just("update")),
        "kept_drain": draw(st.none() | st.sampled_from(["", "bob: smoke", "k8s: cordon", "verify-undrain"])),
    }
    said = {name: value for name, value in marks.items() if value is not None}
    checked = ComputePodCondition(
        HPC_VERIFICATION, draw(st.sampled_from(["True", "False"])), last_transition_time=later(draw(OFTEN))
    )
    found = pod("n1", checked, ready=draw(st.booleans()), **said)  # type: ignore[arg-type]
    return draw(st.sampled_from([None, found, found, going(found)]))


PAIRS = st.builds(
    NodeSnapshot,
    member=st.sampled_from([member("n1"), member("n1", "parked"), member("n1", "leaving")]),
    pod=pods(),
    row=rows(),
    unready_long=st.booleans(),
)


def after(snapshot: NodeSnapshot, what: DrainAction | None) -> NodeSnapshot:
    """What Slurm makes of an order, later than anything that has happened so far."""
    row, moment = snapshot.row, START + 1000
    out = (NodeFlag.DRAIN | NodeFlag.FAIL).value
    if isinstance(what, Drain):
        bits = row.state_bits & ~out | NodeFlag.DRAIN.value
        return replace(snapshot, row=replace(row, state_bits=bits, reason=what.reason, reason_time=moment))
    if isinstance(what, Forget):
        return replace(snapshot, row=replace(row, reason=NOT_RESPONDING, reason_time=moment))
    return (
        replace(snapshot, row=replace(row, state_bits=row.state_bits & ~out)) if isinstance(what, Undrain) else snapshot
    )


def done(snapshot: NodeSnapshot) -> DrainAction | None:
    return drain_action(snapshot, skew=5.0)


@given(PAIRS)
def test_after_one_deed_there_is_nothing_left_to_do(snapshot: NodeSnapshot) -> None:
    """A text of ours may be left by an undrain, and goes next."""
    then = after(snapshot, done(snapshot))
    left = done(then)
    assert left is None or isinstance(left, Forget)
    assert done(after(then, left)) is None


@given(PAIRS)
def test_only_what_slurm_would_not_revive_is_undrained(snapshot: NodeSnapshot) -> None:
    if isinstance(done(snapshot), Undrain):
        assert can_undrain(snapshot.row.state)


@given(PAIRS)
def test_a_foreign_drain_is_touched_by_nothing_but_a_verification(snapshot: NodeSnapshot) -> None:
    if snapshot.row.state.draining and not is_ours(snapshot.row.reason):
        assert done(snapshot) is None or verification_lifts(snapshot, skew=5.0)


@given(PAIRS)
def test_fail_and_a_reboot_are_touched_by_nothing(snapshot: NodeSnapshot) -> None:
    state = snapshot.row.state
    if state.failing or (state.draining and state.rebooting):
        assert done(snapshot) is None or (done(snapshot) == Drain(str(kept_drain(snapshot))) and not state.failing)


@given(PAIRS)
def test_we_drain_in_our_name_exactly_for_the_causes_that_hold(snapshot: NodeSnapshot) -> None:
    what = done(snapshot)
    if isinstance(what, Drain) and is_ours(what.reason):
        assert what.reason == text(causes(snapshot))
    if isinstance(what, Undrain):
        assert text(causes(snapshot)) is None
