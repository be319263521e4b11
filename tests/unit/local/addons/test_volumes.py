from pathlib import Path

import pytest

from sunk.kube.core import (
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    Phase,
)
from sunk.kube.resource import Metadata
from sunk.local.addons import volumes
from sunk.local.addons.volumes import (
    ANYWHERE,
    ASKED_OF,
    CHOSEN_NODE,
    MADE_BY,
    ON_NODE,
    PROVISIONER,
    MakeVolume,
    RemoveVolume,
    plan,
)


def claim(
    *, phase: str = "Pending", asked: str = PROVISIONER, kind: str = ANYWHERE, node: str = ""
) -> PersistentVolumeClaim:
    notes = {ASKED_OF: asked} | ({CHOSEN_NODE: node} if node else {})
    return PersistentVolumeClaim(
        metadata=Metadata(name="data", namespace="a", uid="u1", annotations=notes),
        spec=PersistentVolumeClaimSpec(access_modes=("ReadWriteOnce",), storage_class_name=kind),
        status=Phase(phase=phase),
    )


def volume(*, phase: str, made_by: str = PROVISIONER, policy: str = "Delete") -> PersistentVolume:
    return PersistentVolume(
        metadata=Metadata(name="claim-u1", annotations={MADE_BY: made_by}),
        spec=PersistentVolumeSpec(claim_ref=ObjectReference(uid="u1"), persistent_volume_reclaim_policy=policy),
        status=Phase(phase=phase),
    )


def test_a_waiting_claim_gets_a_volume_named_after_it() -> None:
    assert list(plan([claim()], [])) == [MakeVolume(name="claim-u1", claim=claim())]


def test_a_claim_whose_volume_exists_waits_for_kubernetes_to_bind_it() -> None:
    assert not list(plan([claim()], [volume(phase="Available")]))


@pytest.mark.parametrize("other", [claim(phase="Bound"), claim(asked="somebody else"), claim(kind=ON_NODE)])
def test_a_claim_that_is_bound_or_not_ours_or_not_placed_yet_is_left_alone(other: PersistentVolumeClaim) -> None:
    assert not list(plan([other], []))


def test_a_volume_on_a_node_is_tied_to_it(tmp_path: Path) -> None:
    (make,) = plan([claim(kind=ON_NODE, node="node-2")], [])
    assert isinstance(make, MakeVolume)
    term = volumes.volume(make, folder=tmp_path)["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]
    assert term["matchExpressions"] == [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-2"]}]


def test_other_volumes_are_on_every_node_and_belong_to_the_groups_of_pods(tmp_path: Path) -> None:
    (make,) = plan([claim()], [])
    assert isinstance(make, MakeVolume)
    spec = volumes.volume(make, folder=tmp_path)["spec"]
    assert spec["local"] == {"path": str(tmp_path / "claim-u1")}, "the kubelet minds no fsGroup on a hostPath"
    (match,) = spec["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"]
    assert match == {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}


def test_a_released_volume_goes_with_its_data() -> None:
    assert list(plan([], [volume(phase="Released")])) == [RemoveVolume(name="claim-u1")]


@pytest.mark.parametrize(
    "kept", [volume(phase="Bound"), volume(phase="Released", policy="Retain"), volume(phase="Released", made_by="x")]
)
def test_a_volume_in_use_or_to_be_kept_or_not_ours_stays(kept: PersistentVolume) -> None:
    assert not list(plan([], [kept]))
