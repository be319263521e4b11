"""slurmctld runs with the configuration that is wanted, as soon as its file is there."""

import asyncio

import pytest
from tests.integration.syncer.stage import CLUSTER, Stage, on_stage

from sunk.kube.core import CONFIG_MAPS
from sunk.kube.errors import AlreadyExists
from sunk.kube.patch import Merge
from sunk.local.slurm.configuration import PARTITIONS
from sunk.model import mark, names
from sunk.model.report import Report

pytestmark = on_stage
VERSIONS = ("24.11", pytest.param("26.05", marks=pytest.mark.full))

FILES = f"{CLUSTER}-slurm-conf"
PARTED = ("NodeSet=fast Feature=fast", "PartitionName=fast Nodes=fast", *PARTITIONS)


async def wanted(stage: Stage, text: str) -> None:
    """Write what the operator would: a ConfigMap with the mark in it."""
    lines = (f"{mark.LINE}enable_configless,{mark.PARAMETER}={text}", *PARTED)
    data = {mark.FILE: "".join(f"{line}\n" for line in lines)}
    try:
        await stage.client.create(CONFIG_MAPS, {"metadata": {"name": FILES}, "data": data}, namespace=stage.namespace)
    except AlreadyExists:
        await stage.client.patch(CONFIG_MAPS, FILES, Merge({"data": data}), namespace=stage.namespace)


async def brought(stage: Stage, text: str) -> None:
    """Bring the file to slurmctld, as a kubelet does, and tell nobody."""
    settings = {"SlurmctldParameters": f"enable_configless,{mark.PARAMETER}={text}"}
    await asyncio.to_thread(stage.slurm.layout.write, config=settings, lines=PARTED, files={})


async def told(stage: Stage, **fields: str) -> Report | None:
    def holds(report: Report | None) -> bool:
        return report is not None and all(getattr(report, name) == value for name, value in fields.items())

    return await stage.eventually(stage.report, holds)


async def inside(stage: Stage, partition: str) -> list[str]:
    """The nodes of a partition."""
    found = await asyncio.to_thread(stage.slurm.run, "sinfo", "--noheader", "-p", partition, "-N", "-o", "%N")
    return found.split()


async def test_a_new_configuration_is_read_and_seen_in_force(stage: Stage) -> None:
    await brought(stage, "one")
    await wanted(stage, "one")
    await told(stage, config="one", config_trouble="")


async def test_a_file_that_comes_late_is_waited_for_and_that_is_said(stage: Stage) -> None:
    await wanted(stage, "two")
    late = await stage.eventually(stage.report, lambda report: report is not None and bool(report.config_trouble))
    assert late is not None
    assert "told to read two" in late.config_trouble
    await brought(stage, "two")
    await told(stage, config="two", config_trouble="")


async def test_a_slurmctld_that_was_started_with_it_is_not_told_again(stage: Stage) -> None:
    async with stage.without_slurmctld():
        await brought(stage, "three")
    await wanted(stage, "three")
    await told(stage, config="three", config_trouble="")


async def test_a_killed_syncer_finds_what_is_left_to_do(stage: Stage) -> None:
    await asyncio.to_thread(stage.syncer.kill)
    await brought(stage, "four")
    await wanted(stage, "four")
    await asyncio.to_thread(stage.syncer.start)
    await told(stage, config="four")


async def parted(stage: Stage, text: str, name: str) -> None:
    """Have partitions by feature in force, and a member without a feature."""
    await brought(stage, text)
    await wanted(stage, text)
    await told(stage, config=text)
    await stage.join(name)


async def test_a_partition_by_feature_follows_a_change_of_features(stage: Stage) -> None:
    await parted(stage, "five", "f1")
    await stage.mark("f1", {names.FEATURES: "fast"})
    await stage.slurm_when("f1", lambda node: node.features == ("fast",))
    await stage.eventually(lambda: inside(stage, "fast"), lambda found: "f1" in found)


async def test_it_follows_also_if_the_syncer_died_before_it_could_ask_for_that(stage: Stage) -> None:
    await parted(stage, "six", "g1")
    await asyncio.to_thread(stage.syncer.kill)
    try:
        await stage.mark("g1", {names.FEATURES: "fast"})
        await stage.scontrol("update", "nodename=g1", "availablefeatures=fast", "activefeatures=fast")
        assert "g1" not in await inside(stage, "fast"), "a change of features alone moves nobody"
    finally:
        await asyncio.to_thread(stage.syncer.start)
    await stage.eventually(lambda: inside(stage, "fast"), lambda found: "g1" in found)
