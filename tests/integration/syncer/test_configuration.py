"""slurmctld runs with the configuration that is wanted, as soon as its file is there."""

import asyncio
from collections.abc import Mapping
from functools import partial

import pytest
from tests.integration.syncer.seen import Seen
from tests.integration.syncer.stage import CLUSTER, Stage, on_stage
from tests.versions import BOTH

from sunk.kube.api.patch import Merge
from sunk.kube.core import CONFIG_MAPS
from sunk.kube.errors import AlreadyExists
from sunk.local.slurm.configuration import CONTROLLER, PARTITIONS
from sunk.model import names
from sunk.model.contract import confighash
from sunk.model.contract.report import Report
from sunk.syncer.config.controller import DISTANCE

pytestmark = [on_stage, pytest.mark.timeout(900)]
VERSIONS = BOTH

STARTS = "/var/spool/slurmctld/starts"
LATER = DISTANCE + 90
SLOW = 35
"""Seconds: longer than a call is waited for."""
FILES = f"{CLUSTER}-slurm-conf"
BY_FEATURE = ("NodeSet=fast Feature=fast", "PartitionName=fast Nodes=fast", *PARTITIONS)


async def wanted(stage: Stage, text: str) -> None:
    """Write what the operator would: a ConfigMap with the mark in it."""
    lines = (f"{confighash.LINE}enable_configless,{confighash.PARAMETER}={text}", *BY_FEATURE)
    data = {confighash.FILE: "".join(f"{line}\n" for line in lines)}
    try:
        await stage.client.create(CONFIG_MAPS, {"metadata": {"name": FILES}, "data": data}, namespace=stage.namespace)
    except AlreadyExists:
        await stage.client.patch(CONFIG_MAPS, FILES, Merge({"data": data}), namespace=stage.namespace)


async def boot(stage: Stage) -> str:
    """When slurmctld started, or read its configuration, which is the same to it."""
    found = await stage.scontrol("show", "config")
    return next(line for line in found.splitlines() if line.startswith("BOOT_TIME"))


async def brought(stage: Stage, text: str, *, files: Mapping[str, str] = {}, **more: str) -> None:
    """Bring the file to slurmctld, as a kubelet does, and tell nobody."""
    settings = {"SlurmctldParameters": f"enable_configless,{confighash.PARAMETER}={text}"} | more
    await asyncio.to_thread(stage.slurm.layout.write, config=settings, lines=BY_FEATURE, files=files)


async def told(stage: Stage, **fields: str) -> Report | None:
    def holds(report: Report | None) -> bool:
        return report is not None and all(getattr(report, name) == value for name, value in fields.items())

    return await stage.eventually(stage.report, holds, seconds=LATER)


async def inside(stage: Stage, partition: str) -> list[str]:
    """The nodes of a partition; none while slurmctld does not answer."""
    found = await asyncio.to_thread(stage.slurm.attempt, "sinfo", "--noheader", "-p", partition, "-N", "-o", "%N")
    return found.out.split()


async def test_a_new_configuration_is_read_and_seen_in_force(stage: Stage) -> None:
    await brought(stage, "one")
    await wanted(stage, "one")
    await told(stage, config="one", config_trouble="")


async def test_a_file_that_comes_late_is_waited_for_and_that_is_said(stage: Stage) -> None:
    await wanted(stage, "two")
    text = "has not loaded two yet"
    await stage.eventually(stage.report, lambda report: report is not None and text in report.config_trouble)
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


async def with_partition_by_feature(stage: Stage, text: str, name: str) -> None:
    """Have partitions by feature in force, and a member without a feature."""
    await brought(stage, text)
    await wanted(stage, text)
    await told(stage, config=text)
    await stage.join(name)


async def test_a_partition_by_feature_follows_a_change_of_features(stage: Stage) -> None:
    await with_partition_by_feature(stage, "five", "f1")
    await stage.mark("f1", {names.FEATURES: "fast"})
    await stage.slurm_when("f1", lambda node: node.features == ("fast",))
    await stage.eventually(lambda: inside(stage, "fast"), lambda found: "f1" in found, seconds=LATER)


def has(feature: str, node: Seen) -> bool:
    return node.features == (feature,)


async def test_features_that_no_partition_names_cost_no_reconfigure(stage: Stage) -> None:
    await with_partition_by_feature(stage, "plain", "p1")
    before = await boot(stage)
    for feature in (f"rack{turn}" for turn in range(10)):
        await stage.mark("p1", {names.FEATURES: feature})
        await stage.eventually(lambda: stage.seen("p1"), partial(has, feature))
    await asyncio.sleep(DISTANCE + 5)
    assert await boot(stage) == before


async def test_one_that_takes_slurmctld_longer_than_anybody_waits_is_sent_once(stage: Stage) -> None:
    await with_partition_by_feature(stage, "slow", "s1")
    await asyncio.sleep(DISTANCE)
    # The plugin is loaded by every slurmctld that starts, also by the one of a reconfigure.
    script = f'os.execute("date >> {STARTS}; sleep {SLOW}")\nfunction slurm_job_submit() return 0 end\n'
    script += "function slurm_job_modify() return 0 end\n"
    await brought(stage, "slow", files={"job_submit.lua": script}, JobSubmitPlugins="lua")
    await stage.mark("s1", {names.FEATURES: "fast"})
    await stage.eventually(stage.report, lambda report: report is not None and bool(report.unseen))
    await stage.eventually(lambda: inside(stage, "fast"), lambda found: "s1" in found, seconds=6 * SLOW)
    await asyncio.sleep(SLOW)
    starts = await asyncio.to_thread(stage.slurm.run, "cat", STARTS, on=CONTROLLER)
    assert len(starts.splitlines()) == 1, starts
    await brought(stage, "slow")


async def test_it_follows_also_if_the_syncer_died_before_it_could_ask_for_that(stage: Stage) -> None:
    await with_partition_by_feature(stage, "six", "g1")
    await asyncio.to_thread(stage.syncer.kill)
    try:
        await stage.mark("g1", {names.FEATURES: "fast"})
        await stage.scontrol("update", "nodename=g1", "availablefeatures=fast", "activefeatures=fast")
        assert "g1" not in await inside(stage, "fast"), "a change of features alone moves nobody"
    finally:
        await asyncio.to_thread(stage.syncer.start)
    await stage.eventually(lambda: inside(stage, "fast"), lambda found: "g1" in found, seconds=LATER)
