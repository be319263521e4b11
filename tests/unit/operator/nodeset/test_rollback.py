"""Whose template may be put back by hand."""

import pytest
from msgspec.structs import replace
from tests.unit.operator.nodeset.factories import nodeset

from sunk.kube.resource import OwnerReference
from sunk.model.cluster.kind import SLURMCLUSTER
from sunk.model.refusal import Refusal
from sunk.operator.nodeset.rollback import require_own


def test_a_nodeset_of_a_slurmcluster_is_left_to_it() -> None:
    own = nodeset()
    require_own(own)
    made = OwnerReference(
        api_version=SLURMCLUSTER.api_version, kind="SlurmCluster", name="slurm", uid="1", controller=True
    )
    with pytest.raises(Refusal, match="written by SlurmCluster slurm"):
        require_own(replace(own, metadata=replace(own.metadata, owner_references=(made,))))
