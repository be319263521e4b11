"""What the values name and somebody else has to make."""

from tests.unit.operator.slurmcluster.clusters import cluster

from sunk.operator.slurmcluster.rollout.references import ReferencedObject, references


def test_a_plain_cluster_needs_nothing_of_others() -> None:
    assert references(cluster()) == []


def test_claims_and_config_maps_are_known_by_their_place_in_the_values() -> None:
    values = {
        "controller": {"state": {"existingClaim": "state"}},
        "mysql": {"storage": {"existingClaim": "data"}},
        "compute": {"mounts": [{"name": "/home", "pvc": "home"}]},
        "slurmConfig": {"slurmCtld": {"etcConfigMap": "etc"}, "slurmd": {"prologConfigmap": "before"}},
    }
    claim, config_map = "PersistentVolumeClaim", "ConfigMap"
    assert references(cluster(values)) == [
        ReferencedObject("controller.state.existingClaim", claim, "state"),
        ReferencedObject("mysql.storage.existingClaim", claim, "data"),
        ReferencedObject("compute.mounts[0].pvc", claim, "home"),
        ReferencedObject("slurmConfig.slurmCtld.etcConfigMap", config_map, "etc"),
        ReferencedObject("slurmConfig.slurmd.prologConfigMap", config_map, "before"),
    ]


def test_the_claim_of_a_database_that_is_not_made_does_not_count() -> None:
    values = {"mysql": {"storage": {"existingClaim": "data"}}, "accounting": {"enabled": False}}
    assert references(cluster(values)) == []
