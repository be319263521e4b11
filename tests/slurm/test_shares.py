"""What a job has on each of its nodes, and which partitions a node is in."""

from tests.slurm.asking import MADE, job, until

from sunk.local.slurm.remote import Remote
from sunk.model.hostlist import expand
from sunk.slurm.cli.selection import partitions_by_node
from sunk.slurm.libslurm.description import JobDescription
from sunk.slurm.libslurm.library import Library
from sunk.slurm.mirror.mirror import Mirror
from sunk.slurm.orders.jobs import JobOrders
from sunk.slurm.orders.nodes import Orders


async def test_a_job_shows_its_cpus_and_gpus_node_by_node(library: Library, jobs: JobOrders, cluster: Remote) -> None:
    wanted = JobDescription(name="gang", min_nodes=3, wanted_nodes="n[1-2],g1", memory=100, whole_nodes=True)
    given = await jobs.allocate(wanted)
    found = await library.allocation(given.job)
    assert found is not None
    assert found.job == given.job
    assert dict(zip(expand(found.nodes), found.cpus, strict=True)) == {"n1": 2, "n2": 2, "g1": 64}
    gpus = (await job(library, given.job)).gpus
    assert dict(zip(expand(found.nodes), map(len, gpus), strict=True)) == {"n1": 0, "n2": 0, "g1": 8}
    await jobs.cancel(given.job)

    uneven = int(cluster.run("sbatch", "--parsable", "-N2", "-n4", "-w", "n1,g1", "--wrap", "sleep 60"))

    async def shares() -> bool:
        held = await library.allocation(uneven)
        return held is not None and sum(held.cpus) == 4 and len(held.cpus) == 2

    await until(shares)


async def test_a_job_that_holds_no_node_has_no_shares(library: Library, jobs: JobOrders) -> None:
    given = await jobs.allocate(JobDescription(name="held", min_nodes=1, memory=10, priority=0))
    assert await library.allocation(given.job) is None
    await jobs.cancel(given.job)
    assert await library.allocation(given.job) is None
    assert await library.allocation(4_000_000) is None


async def test_a_node_is_in_the_partitions_that_list_it(library: Library, cluster: Remote) -> None:
    cluster.run("scontrol", "create", "partitionname=extra", "nodes=n1,g1", on="controller")
    table = await library.partitions()
    assert table is not None
    found = partitions_by_node(table.rows)
    assert (found["n1"], found["n2"], found["g1"]) == (("all", "extra"), ("all",), ("all", "extra"))
    cluster.run("scontrol", "delete", "partitionname=extra", on="controller")


async def test_nodes_that_we_delete_ourselves_are_not_suspicious(library: Library) -> None:
    mirror = Mirror(library)
    orders = Orders(library, mirror=mirror)
    async with mirror.running():
        names = [f"{MADE}{index}" for index in range(10)]
        await orders.create(names, line="CPUs=4 State=CLOUD")
        await mirror.read_after()
        assert set(names) <= mirror.nodes.keys()
        await orders.delete(names)
        await mirror.read_after()
        assert not set(names) & mirror.nodes.keys()
        assert not mirror.suspicious
