"""The hash by which Slurm itself says with which configuration it runs."""

from tests.unit.operator.slurmcluster.clusters import cluster

from sunk.model.contract.confighash import PARAMETER
from sunk.operator.slurmcluster.objects import marked
from sunk.operator.slurmcluster.resolve import ResolvedCluster
from sunk.operator.slurmcluster.slurmconf.conf import SLURM_CONF, configuration


def mark(made: ResolvedCluster) -> str:
    return marked(configuration(made), cluster=made)[1]


def test_the_hash_stands_in_the_file_and_is_that_of_the_file_without_it() -> None:
    made = cluster()
    files, found = marked(configuration(made), cluster=made)
    lines = [line for line in files[SLURM_CONF].splitlines() if line.startswith("SlurmctldParameters=")]
    assert [line.endswith(f",{PARAMETER}={found}") for line in lines] == [True]
    assert files[SLURM_CONF].replace(f",{PARAMETER}={found}", "") == configuration(made)[SLURM_CONF]


def test_a_line_of_somebodys_own_that_counts_instead_carries_it() -> None:
    made = cluster({"slurmConfig": {"extraConfig": "SlurmctldParameters=idle_on_node_suspend\n"}})
    files, found = marked(configuration(made), cluster=made)
    assert files[SLURM_CONF].splitlines()[-1].endswith(f"idle_on_node_suspend,{PARAMETER}={found}")


def test_another_slurmctld_is_another_configuration_and_other_images_are_not() -> None:
    before = mark(cluster({"image": {"repository": "slurm", "tag": "24.11"}}))
    assert mark(cluster({"image": {"repository": "slurm", "tag": "26.05"}})) != before
    login = {"image": {"repository": "slurm", "tag": "24.11"}, "login": {"image": {"tag": "mine"}}}
    assert mark(cluster(login)) == before
    controller = {"image": {"repository": "slurm", "tag": "26.05"}, "controller": {"image": {"tag": "24.11"}}}
    assert mark(cluster(controller)) == before
