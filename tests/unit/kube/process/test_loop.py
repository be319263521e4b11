import asyncio

from sunk.kube.process.loop import run


def test_what_it_runs_gives_its_result_on_a_loop_of_uvloop() -> None:
    async def which() -> str:
        await asyncio.sleep(0)
        return type(asyncio.get_running_loop()).__module__

    assert run(which()) == "uvloop"
