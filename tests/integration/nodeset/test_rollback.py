"""`sunk nodeset history` and `sunk nodeset rollback`, as a person runs them."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.conftest import Kube
from tests.integration.nodeset.stage import Operator, Stage, eventually

Sunk = Callable[..., Awaitable[tuple[int, str, str]]]
PROGRAM = str(Path(sys.executable).with_name("sunk"))
ALL_AT_ONCE = {"rollingUpdate": {"maxUnavailable": "100%"}}


@pytest.fixture
def sunk(kube: Kube) -> Sunk:
    async def run(*arguments: str, namespace: str = "") -> tuple[int, str, str]:
        command = (PROGRAM, "nodeset", *arguments, "-n", namespace or kube.namespace)
        process = await asyncio.create_subprocess_exec(
            *command,
            env=os.environ | {"KUBECONFIG": str(kube.kubeconfig)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        return process.returncode or 0, out.decode(), err.decode()

    return run


def rows(out: str) -> list[list[str]]:
    """The table without its head and without the ages."""
    found = [line.split() for line in out.splitlines()[1:]]
    return [[number, *rest] for number, _, _, *rest in found]


async def colours(stage: Stage) -> set[str]:
    return {pod.metadata.annotations.get("colour", "") for pod in (await stage.pods()).values()}


async def painted(stage: Stage, colour: str) -> None:
    await eventually(lambda: colours(stage), lambda found: found == {colour})
    await stage.settled(len(stage.nodes))


@pytest.mark.usefixtures("operator")
async def test_an_older_template_comes_back_whole_and_pods_follow(stage: Stage, sunk: Sunk) -> None:
    async with stage.syncer():
        blue, red = stage.template(colour="blue"), stage.template(colour="red", only="in red")
        made = await stage.create(template=blue, updateStrategy=ALL_AT_ONCE)
        await painted(stage, "blue")
        await stage.change(template=red)
        await painted(stage, "red")
        code, out, _ = await sunk("history", "gpu")
        assert (code, rows(out)) == (0, [["1", "0"], ["2", "3", "*"]])

        code, out, err = await sunk("rollback", "gpu")
        assert (code, err) == (0, "")
        assert out.startswith("revision 1 (")
        await painted(stage, "blue")
        back = await stage.nodeset()
        assert bytes(back.spec.template) == bytes(made.spec.template)
        _, out, _ = await sunk("history", "gpu")
        assert rows(out) == [["2", "0"], ["3", "3", "*"]]

        code, out, _ = await sunk("rollback", "gpu", "--to", "2")
        assert code == 0
        await painted(stage, "red")


@pytest.mark.usefixtures("operator")
async def test_going_back_to_what_is_there_already_changes_nothing(stage: Stage, sunk: Sunk) -> None:
    await stage.create()
    before = await stage.settled(3)
    code, out, _ = await sunk("rollback", "gpu", "--to", "1")
    assert (code, out.endswith("NodeSet gpu already uses it\n")) == (0, True)
    assert (await stage.nodeset()).metadata.generation == before.metadata.generation


async def refusal(sunk: Sunk, *arguments: str, namespace: str = "") -> str:
    code, out, err = await sunk(*arguments, namespace=namespace)
    assert (code, out) == (2, "")
    return err


async def test_what_cannot_be_done_is_said_in_a_sentence(kube: Kube, stage: Stage, sunk: Sunk) -> None:
    where = f"in namespace {kube.namespace}"
    told = await refusal(sunk, "history", "gpu")
    assert told == f"sunk: no NodeSet gpu {where}: it has none; choose another namespace with --namespace\n"
    await stage.create("cpu")
    assert await refusal(sunk, "rollback", "gpu") == f"sunk: no NodeSet gpu {where}: found cpu\n"
    told = await refusal(sunk, "rollback", "cpu")
    assert told == f"sunk: NodeSet {kube.namespace}/cpu has no older template to roll back to (stored: none yet)\n"
    async with Operator(kube):
        await stage.settled(3, "cpu")
        told = await refusal(sunk, "rollback", "cpu", "--to", "7")
    assert told.startswith(f"sunk: NodeSet {kube.namespace}/cpu has no revision 7 (stored: 1): choose one of these")
