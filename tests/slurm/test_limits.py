"""Values at and above the limits of Slurm: what fits comes back whole, what does not is told by name and never sent."""

from typing import Any

import pytest
from tests.slurm.asking import job, node

from sunk.local.slurm.remote import Remote
from sunk.slurm.binding.shapes import NODE_TEXT, SHORT
from sunk.slurm.errors import SlurmError, TooLong, UnknownName
from sunk.slurm.libslurm.description import JobDescription
from sunk.slurm.libslurm.library import Library
from sunk.slurm.libslurm.wire import NodeChange
from sunk.slurm.orders import bounds
from sunk.slurm.orders.jobs import JobOrders
from sunk.slurm.orders.nodes import Orders

HELD = {"min_nodes": 1, "memory": 10, "priority": 0}
KIB = 1 << 10
MIB = 1 << 20


def held(**more: Any) -> JobDescription:
    return JobDescription(**{"name": "held", **HELD, **more})


async def test_the_longest_texts_of_nodes_come_back_whole(library: Library, orders: Orders) -> None:
    most = bounds.LONG_TEXT
    await orders.drain(["n1"], reason="r" * most)
    await orders.set_comment(["n1"], comment="ü" * (most // 2))
    await orders.merge_extra({"n1": {"sunk": "e" * (most - 11)}})
    found = await node(library, "n1")
    assert (found.reason, found.comment) == ("r" * most, "ü" * (most // 2))
    assert found.extra == f'{{"sunk":"{"e" * (most - 11)}"}}'
    await orders.set_comment(["n1"], comment="")
    await orders.merge_extra({"n1": {"sunk": None}})
    assert (await node(library, "n1")).comment == ""


async def test_slurm_itself_would_take_any_length_and_we_keep_the_beginning(library: Library, orders: Orders) -> None:
    library.wire.update_nodes(NodeChange(names="n1", comment="ü" * MIB))
    found = (await node(library, "n1")).comment
    assert found == "ü" * ((NODE_TEXT - 3) // 2) + "..."
    assert bounds.is_long(found)
    await orders.set_comment(["n1"], comment="")


async def test_an_extra_of_many_megabytes_is_left_alone_and_keeps_no_other_node_from_its_own(
    library: Library, orders: Orders, cluster: Remote
) -> None:
    """Also where it holds our key, which cannot be written to any more."""
    theirs = f'{{"sunk":0,"theirs":"{"x" * (8 * MIB)}"}}'
    library.wire.update_nodes(NodeChange(names="n1", extra=theirs))
    outcome = await orders.merge_extra({"n1": {"sunk": 1}, "n2": {"sunk": 1}})
    assert (outcome.done, outcome.refused) == (("n2",), ("n1",))
    shown = cluster.run("scontrol", "show", "node", "n1", on="controller")
    assert len(shown) > 8 * MIB, "all of it is still there"
    assert len((await node(library, "n1")).extra) <= NODE_TEXT
    library.wire.update_nodes(NodeChange(names="n[1-2]", extra=""))


async def test_what_users_write_into_jobs_is_cut_where_nothing_is_decided_upon_it(
    library: Library, jobs: JobOrders
) -> None:
    long = "ü" * (bounds.JOB_TEXT // 2)
    given = await jobs.allocate(held(name=long, comment=long, extra=long, wanted_nodes=",".join(["n1"] * 1000)))
    found = await job(library, given.job)
    assert found.name == found.comment == "ü" * ((SHORT - 3) // 2) + "..."
    assert found.extra == long
    assert len(found.wanted_nodes.encode()) <= SHORT
    await jobs.cancel(given.job)


async def test_longer_texts_of_nodes_are_refused_by_name_and_nothing_is_sent(library: Library, orders: Orders) -> None:
    long = "x" * (bounds.LONG_TEXT + 1)
    with pytest.raises(ValueError, match=r"the reason of nodes is 65,537 bytes long, but at most 65,536 are allowed"):
        await orders.drain(["n1"], reason=long)
    with pytest.raises(ValueError, match="the comment of nodes"):
        await orders.set_comment(["n1"], comment=long)
    with pytest.raises(ValueError, match="1,001 features are too many"):
        await orders.set_features(["n1"], features=[f"f{index}" for index in range(1001)])
    assert not (await node(library, "n1")).state.draining


async def test_an_extra_that_users_filled_is_left_alone_and_keeps_no_other_node_from_its_own(
    library: Library, orders: Orders
) -> None:
    theirs = f'{{"theirs":"{"x" * bounds.LONG_TEXT}"}}'
    library.wire.update_nodes(NodeChange(names="n1", extra=theirs))
    outcome = await orders.merge_extra({"n1": {"sunk": 1}, "n2": {"sunk": 1}})
    assert (outcome.done, outcome.refused) == (("n2",), ("n1",))
    assert theirs.startswith((await node(library, "n1")).extra.removesuffix("..."))
    library.wire.update_nodes(NodeChange(names="n[1-2]", extra="{}"))


async def test_a_thousand_features_are_kept_and_a_long_one_too(library: Library, orders: Orders) -> None:
    features = (*(f"f{index}" for index in range(bounds.FEATURES - 1)), "x" * KIB)
    await orders.set_features(["n1"], features=features)
    assert (await node(library, "n1")).features == features
    await orders.set_features(["n1"], features=())
    assert (await node(library, "n1")).features == ()


@pytest.mark.parametrize("name", ["name", "comment", "extra", "account", "qos"])
async def test_longer_texts_of_jobs_are_refused_by_name_where_slurm_would_not_say_which(
    library: Library, jobs: JobOrders, name: str
) -> None:
    long = held(**{name: "x" * (bounds.JOB_TEXT + 1)})
    with pytest.raises(ValueError, match=f"the {name} of a job is 1,025 bytes long, but at most 1,024 are allowed"):
        await jobs.allocate(long)
    with pytest.raises(TooLong, match="ESLURM_PATHNAME_TOO_LONG 2012"):
        library.wire.allocate(long)


async def test_a_script_is_as_long_as_slurm_takes(jobs: JobOrders) -> None:
    whole = "#!/bin/sh\n#".ljust(4 * MIB - KIB, "x")
    await jobs.submit(held(script=whole, environment={"LONG": "x" * 64 * KIB}))
    with pytest.raises(TooLong, match="submit job held"):
        await jobs.submit(held(script=whole + "x" * 2 * KIB))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("memory", 2**63 - 1),
        ("cpus_per_task", 2**16 - 3),
        ("min_nodes", 2**32 - 3),
        ("time_limit", 2**32 - 3),
        ("time_limit", 0),
    ],
)
async def test_the_largest_numbers_are_numbers(library: Library, jobs: JobOrders, name: str, value: int) -> None:
    given = await jobs.allocate(held(**{name: value}))
    found = await job(library, given.job)
    shown = {"cpus_per_task": found.cpus, "min_nodes": found.node_count}
    assert shown.get(name, getattr(found, name, None)) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("memory", 2**63),
        ("memory", 2**64),
        ("memory", -1),
        ("cpus_per_task", 2**16 - 2),
        ("cpus_per_task", 2**16),
        ("min_nodes", 2**32 - 2),
        ("time_limit", 2**32 - 1),
        ("priority", 2**32),
    ],
)
async def test_numbers_that_slurm_would_take_for_something_else_are_refused(
    jobs: JobOrders, name: str, value: int
) -> None:
    with pytest.raises(ValueError, match=f"the {name} of a job must be between 0 and"):
        await jobs.allocate(held(**{name: value}))


async def test_a_memory_with_the_highest_bit_is_none_at_all_for_slurm(library: Library, jobs: JobOrders) -> None:
    given = library.wire.allocate(held(memory=2**63, work_dir="/"))
    assert (await job(library, given.job)).memory == 0
    await jobs.cancel(given.job)


async def test_no_nodes_are_too_few(jobs: JobOrders) -> None:
    with pytest.raises(SlurmError, match=r"allocate job held: Node count .* \(ESLURM_INVALID_NODE_COUNT 2006\)"):
        await jobs.allocate(held(min_nodes=0))


async def test_ten_thousand_names_that_no_range_joins_go_in_one_order(library: Library, orders: Orders) -> None:
    names = [f"x{index}y" for index in range(10_000)]
    outcome = await orders.drain([*names, "n1"], reason="k8s: test")
    assert (outcome.done, len(outcome.unknown)) == (("n1",), 10_000)
    assert (await node(library, "n1")).state.draining


async def test_a_list_of_nodes_for_a_job_is_bounded(jobs: JobOrders) -> None:
    names = ",".join(f"x{index}y" for index in range(9000))
    with pytest.raises(UnknownName):
        await jobs.allocate(held(wanted_nodes=names))
    with pytest.raises(ValueError, match="the refused_nodes of a job is"):
        await jobs.allocate(held(refused_nodes=names * 2))
