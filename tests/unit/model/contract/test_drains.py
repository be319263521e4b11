"""The causes for drains: their texts, and what is done about one node."""

import re
from pathlib import Path

from hypothesis import given, strategies as st
from msgspec.structs import replace

from sunk.model.contract import drains
from sunk.model.contract.drains import (
    Causes,
    Drain,
    DrainAction,
    DrainState,
    Forget,
    Undrain,
    decide,
    is_ours,
    is_personal,
    read,
    text,
)

ROOT = Path(__file__).parents[4]
SAID = st.text(max_size=40) | st.sampled_from(
    ["", "disk", "cordon", ": x", "k8s: cordon", "pod terminated", "a\nb", " "]
)
CAUSES = st.builds(
    Causes,
    terminated=st.booleans(),
    pending_deletion=st.booleans(),
    deletion_timeout=st.booleans(),
    not_ready=st.booleans(),
    new=st.booleans(),
    cordon=st.none() | SAID,
)
FOREIGN = st.text(max_size=30).filter(lambda reason: not is_ours(reason)) | st.sampled_from(
    [
        "",
        "alice: bad fan",
        "Not responding",
        "K8S: cordon",
        " k8s: cordon",
        "k8s",
        "prolog failed (sunk:verify-undrain)",
    ]
)
OURS = CAUSES.map(text).filter(bool).map(str) | SAID.map(lambda said: f"{drains.PREFIX}{said}")
NODES = st.builds(
    DrainState,
    draining=st.booleans(),
    reason=FOREIGN | OURS,
    down=st.booleans(),
    registered=st.booleans(),
    failing=st.booleans(),
    rebooting=st.booleans(),
)


def after(node: DrainState, *deeds: DrainAction | None) -> DrainState:
    """What Slurm makes of orders. It keeps the reason when a drain is taken back, and has DRAIN or FAIL, not both."""
    for deed in deeds:
        if isinstance(deed, Drain):
            node = replace(node, draining=True, failing=False, reason=deed.reason)
        elif isinstance(deed, Undrain):
            node = replace(node, draining=False, failing=False)
        elif isinstance(deed, Forget):
            node = replace(node, reason=drains.NOT_RESPONDING)
    return node


# Texts


def test_each_cause_has_its_text_and_the_strongest_is_shown() -> None:
    assert text(Causes()) is None
    assert text(Causes(terminated=True, not_ready=True)) == "k8s: pod terminated"
    assert text(Causes(pending_deletion=True, deletion_timeout=True)) == "k8s: pending deletion"
    assert text(Causes(deletion_timeout=True, not_ready=True)) == "k8s: pod deletion timeout"
    assert text(Causes(not_ready=True)) == "k8s: pod not ready"


def test_a_cordon_is_readable_by_itself_and_behind_a_stronger_cause() -> None:
    assert text(Causes(cordon="")) == "k8s: cordon"
    assert text(Causes(cordon="disk")) == "k8s: cordon: disk"
    assert text(Causes(terminated=True, cordon="disk")) == "k8s: pod terminated: cordon: disk"
    assert text(Causes(not_ready=True, cordon="")) == "k8s: pod not ready: cordon"


def test_a_cordons_reason_is_cut_to_one_short_line() -> None:
    assert text(Causes(cordon=" bad\n\tfan\x00 ")) == "k8s: cordon: bad fan"
    assert len(str(text(Causes(cordon="ä" * 100_000))).encode()) <= drains.LONGEST + len("k8s: cordon: ")


@given(CAUSES)
def test_a_text_is_read_back_as_what_it_shows(causes: Causes) -> None:
    said = text(causes)
    if said is None:
        assert causes == Causes()
        return
    found = read(said)
    assert found is not None
    assert text(found) == said
    assert is_ours(said)


@given(FOREIGN)
def test_a_foreign_reason_is_never_read_as_ours(reason: str) -> None:
    assert not is_ours(reason)
    assert read(reason) is None


@given(CAUSES)
def test_what_we_write_is_what_slurm_gives_back(causes: Causes) -> None:
    said = text(causes) or ""
    assert said == " ".join(said.split())
    assert said.isprintable()


def test_every_text_of_ours_in_the_source_has_a_cause() -> None:
    """No part may drain under our name without a cause that is looked up again."""
    kinds = {".py", ".sh", ".c", ".json", ".yaml", ".tpl", ""}
    files = [path for folder in ("src", "images", "charts") for path in (ROOT / folder).rglob("*")]
    sources = [path for path in files if path.is_file() and path.suffix in kinds]
    found = {(path.name, said) for path in sources for said in re.findall(r"k8s: [^`'\"\n<{]+", path.read_text())}
    assert found
    assert [each for each in sorted(found) if read(each[1].strip()) is None] == []


# What is done


@given(NODES, CAUSES)
def test_a_foreign_drain_is_never_touched(node: DrainState, causes: Causes) -> None:
    if node.draining and not is_ours(node.reason):
        assert decide(node, causes) is None


@given(NODES, CAUSES)
def test_fail_is_somebody_elses_whatever_its_reason_and_never_touched(node: DrainState, causes: Causes) -> None:
    failing = replace(node, failing=True)
    assert failing.foreign
    assert is_personal(failing)
    assert decide(failing, causes) is None


@given(NODES, CAUSES)
def test_a_node_that_slurm_is_to_reboot_is_neither_undrained_nor_given_another_text(
    node: DrainState, causes: Causes
) -> None:
    rebooting = replace(node, rebooting=True)
    found = decide(rebooting, causes)
    assert found is None or (isinstance(found, Drain) and not node.draining)


def test_our_drain_is_lifted_once_the_reboot_is_over_whatever_slurm_added_to_its_text() -> None:
    found = DrainState(draining=True, reason="k8s: cordon: disk : reboot issued")
    assert read(found.reason) == Causes(cordon="disk")
    assert decide(replace(found, rebooting=True), Causes()) is None
    assert decide(found, Causes()) == Undrain()
    assert decide(found, Causes(cordon="disk")) == Drain("k8s: cordon: disk")


@given(NODES, CAUSES)
def test_a_reason_is_forgotten_only_in_service_and_only_if_it_is_ours(node: DrainState, causes: Causes) -> None:
    if isinstance(decide(node, causes), Forget):
        assert not any((node.draining, node.failing, node.down, node.rebooting))
        assert is_ours(node.reason)
        assert causes == Causes()


@given(NODES, CAUSES)
def test_a_node_that_is_down_is_never_undrained_and_drained_only_to_be_removed(
    node: DrainState, causes: Causes
) -> None:
    deed = decide(replace(node, down=True), causes)
    assert not isinstance(deed, Undrain)
    assert deed is None or causes.pending_deletion


@given(NODES, CAUSES)
def test_only_a_registered_node_is_undrained_and_only_if_nothing_of_ours_holds(
    node: DrainState, causes: Causes
) -> None:
    if isinstance(decide(node, causes), Undrain):
        assert node.registered
        assert node.draining
        assert is_ours(node.reason)
        assert causes == Causes()


@given(NODES, CAUSES)
def test_done_once_there_is_nothing_left_to_do(node: DrainState, causes: Causes) -> None:
    """A text of ours may be left by an undrain, and goes next."""
    then = after(node, decide(node, causes))
    left = decide(then, causes)
    assert left is None or isinstance(left, Forget)
    assert decide(after(then, left), causes) is None


@given(NODES, CAUSES)
def test_a_node_that_is_up_ends_with_our_drain_exactly_while_a_cause_holds(node: DrainState, causes: Causes) -> None:
    up = replace(node, down=False, registered=True)
    found = after(up, decide(up, causes))
    if up.foreign:
        assert found == up
    else:
        assert found.draining == (text(causes) is not None)
        assert not found.draining or found.reason == text(causes)


def test_an_old_reason_without_the_flag_says_nothing() -> None:
    """Slurm 24.11 keeps the text after an undrain."""
    assert decide(DrainState(draining=False, reason="k8s: cordon"), Causes()) == Forget()
    assert decide(DrainState(draining=False, reason="alice: bad fan"), Causes()) is None
    assert decide(DrainState(draining=False, reason="k8s: cordon"), Causes(cordon="")) == Drain("k8s: cordon")
    assert decide(DrainState(draining=False, reason="alice: bad fan"), Causes(cordon="")) == Drain("k8s: cordon")


def test_a_drain_that_was_taken_away_too_early_is_put_back() -> None:
    node = DrainState(draining=True, reason="k8s: cordon: disk")
    assert decide(node, Causes(cordon="disk")) is None
    assert decide(after(node, Undrain()), Causes(cordon="disk")) == Drain("k8s: cordon: disk")


def test_a_down_node_that_has_to_go_is_drained_unless_a_person_has_written_there() -> None:
    leaving = Causes(pending_deletion=True)
    for reason in ("", "Not responding", "k8s: pod terminated"):
        down = DrainState(draining=False, down=True, reason=reason)
        assert decide(down, leaving) == Drain("k8s: pending deletion")
        assert not is_personal(down)
    personal = DrainState(draining=False, down=True, reason="alice: bad fan")
    assert decide(personal, leaving) is None
    assert is_personal(personal)
    assert not is_personal(DrainState(draining=False, reason="alice: left over"))


def test_a_record_that_was_born_drained_is_lifted_or_gets_the_cause_that_holds() -> None:
    born = DrainState(draining=True, reason=drains.NEW)
    assert drains.read(drains.NEW) == Causes(new=True)
    assert drains.text(Causes(new=True)) == drains.NEW
    assert decide(born, Causes()) == Undrain()
    assert decide(born, Causes(cordon="disk")) == Drain("k8s: cordon: disk")
    assert decide(replace(born, registered=False), Causes()) is None
