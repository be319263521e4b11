"""The operator as a process: who leads, how work ends, what probes and scrapers hear."""

import asyncio
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest
import yaml
from msgspec import Struct, json
from tests.cable import Cable
from tests.conftest import Kube

from sunk.kube.api.client import Scope
from sunk.kube.auth import access
from sunk.kube.cache.collection import Collection
from sunk.kube.control.controller import Controller, Requeue, Source, itself
from sunk.kube.control.term import LeaseTiming
from sunk.kube.core import CONFIG_MAPS, LEASES
from sunk.kube.errors import NotFound
from sunk.kube.resource import Key
from sunk.operator.commands import NAME
from sunk.service.part import Build, Part, Setting
from sunk.service.process import ServiceProcess, ServiceSettings

PATIENCE = 90.0
LASTING = LeaseTiming(duration=600, margin=60, interval=0.2)
"""Not lost where processes stand still for seconds, and given back in any case."""
LOSING = LeaseTiming(duration=12, margin=2, interval=0.2)


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0.02)


async def holder(kube: Kube) -> str | None:
    """Who leads; None if there is no Lease yet, and empty if nobody does."""
    with suppress(NotFound):
        return (await kube.client.get(LEASES, NAME, namespace=kube.namespace)).spec.holder_identity
    return None


async def led_by(kube: Kube, name: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while await holder(kube) != name:
            await asyncio.sleep(0.05)


class Trade(Struct):
    """A part that looks at every ConfigMap of a namespace, slowly, and remembers when it did what."""

    namespace: str
    pace: float = 0.0
    until: asyncio.Event | None = None
    begun: int = 0
    ended: int = 0
    cancelled: int = 0
    setting: Setting | None = None

    def build(self, setting: Setting) -> Part:
        self.setting = setting
        maps = Collection(setting.client, CONFIG_MAPS, Scope(namespace=self.namespace))
        controller = Controller("trade", self._look, sources=[Source(maps.store, itself)])
        return Part("trade", follows=(maps,), controllers=(controller,))

    @property
    def may_write(self) -> bool:
        return self.setting is not None and self.setting.may_write()

    async def _look(self, _: Key) -> Requeue | None:
        self.begun += 1
        try:
            await (asyncio.sleep(self.pace) if self.until is None else self.until.wait())
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        self.ended += 1
        return Requeue(after=0.1)


class Running:
    """An operator in this process."""

    def __init__(self, task: "asyncio.Task[None]", told: asyncio.Event, port: int) -> None:
        self.task = task
        self.told = told
        self._at = f"http://127.0.0.1:{port}"

    async def ask(self, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.get(self._at + path) as answer:
            return answer.status, await answer.text()

    async def ready(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                with suppress(aiohttp.ClientError):
                    if (await self.ask("/readyz"))[0] == 200:
                        return
                await asyncio.sleep(0.05)


@asynccontextmanager
async def operator(  # noqa: PLR0913 - one keyword per trait
    kube: Kube,
    name: str,
    *builds: Build,
    port: int,
    grace: float = PATIENCE,
    by: access.Access | None = None,
    timing: LeaseTiming = LASTING,
) -> AsyncIterator[Running]:
    order = ServiceSettings(
        name=NAME,
        identity=name,
        lease_namespace=kube.namespace,
        host="127.0.0.1",
        port=port,
        timing=timing,
        grace=grace,
    )
    told = asyncio.Event()
    made = ServiceProcess(order, access=by or access.from_kubeconfig(kube.kubeconfig))
    task = asyncio.create_task(made.serve(builds, told=told), name=f"operator {name}")
    try:
        yield Running(task, told, port)
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def test_one_leads_and_the_other_takes_over_with_everything_read(
    kube: Kube, unused_tcp_port_factory: Callable[[], int]
) -> None:
    first, second = Trade(kube.namespace), Trade(kube.namespace)
    async with operator(kube, "one", first.build, port=unused_tcp_port_factory()) as one:
        await led_by(kube, "one")
        await eventually(lambda: first.ended > 0)
        async with operator(kube, "two", second.build, port=unused_tcp_port_factory()) as two:
            await two.ready()
            assert (first.may_write, second.may_write) == (True, False)
            assert "store_synced" in (await two.ask("/metrics"))[1]
            one.told.set()
            await one.task
            await led_by(kube, "two")
            await eventually(lambda: second.ended > 0)
            assert (first.may_write, second.may_write) == (False, True)


async def test_work_in_hand_is_finished_before_the_lease_is_given_back(kube: Kube, unused_tcp_port: int) -> None:
    over = asyncio.Event()
    trade = Trade(kube.namespace, until=over)
    async with operator(kube, "one", trade.build, port=unused_tcp_port) as one:
        await eventually(lambda: trade.begun > 0)
        one.told.set()
        await asyncio.sleep(0)
        status, said = await one.ask("/readyz")
        assert (status, await holder(kube)) == (503, "one")
        assert "stopping" in said
        over.set()
        await one.task
    assert (trade.begun, trade.cancelled) == (trade.ended, 0)
    assert await holder(kube) == ""


async def test_work_that_does_not_end_is_cancelled(kube: Kube, unused_tcp_port: int) -> None:
    trade = Trade(kube.namespace, pace=3600)
    async with operator(kube, "one", trade.build, port=unused_tcp_port, grace=0.2) as one:
        await eventually(lambda: trade.begun > 0)
        one.told.set()
        await one.task
    assert trade.cancelled == trade.begun
    assert await holder(kube) == ""


async def test_one_who_stands_by_leaves_at_once(kube: Kube, unused_tcp_port_factory: Callable[[], int]) -> None:
    async with operator(kube, "one", port=unused_tcp_port_factory()):
        await led_by(kube, "one")
        async with operator(kube, "two", port=unused_tcp_port_factory()) as two:
            await two.ready()
            two.told.set()
            await two.task
        assert await holder(kube) == "one"


async def test_without_its_server_the_work_ends_before_another_can_lead_and_comes_back_with_it(
    kube: Kube, unused_tcp_port: int
) -> None:
    trade, cable = Trade(kube.namespace, pace=0.05), Cable()
    async with (
        cable.laid(access.from_kubeconfig(kube.kubeconfig)) as by,
        operator(kube, "one", trade.build, port=unused_tcp_port, by=by, timing=LOSING) as one,
    ):
        await eventually(lambda: trade.ended > 0)
        cable.cut()
        await eventually(lambda: not trade.may_write)
        await asyncio.sleep(LOSING.margin)
        begun = trade.begun
        await asyncio.sleep(0.5)
        assert trade.begun == begun
        assert (await one.ask("/healthz"))[0] == 200
        cable.mend()
        await eventually(lambda: trade.begun > begun and trade.may_write)
        assert 'sunk_kube_lease_losses_total{name="sunk-controller-manager"} 1.0' in (await one.ask("/metrics"))[1]


async def test_a_part_that_breaks_ends_the_process(kube: Kube, unused_tcp_port: int) -> None:
    def build(setting: Setting) -> Part:
        maps = Collection(setting.client, CONFIG_MAPS, Scope(namespace=kube.namespace))
        maps.store.subscribe(_break)
        return Part("odd", follows=(maps,), controllers=())

    async with operator(kube, "one", build, port=unused_tcp_port) as one:
        with pytest.raises(ExceptionGroup) as broken:
            await asyncio.wait_for(one.task, PATIENCE)
    assert broken.group_contains(ZeroDivisionError)


def _break(*_: object) -> None:
    raise ZeroDivisionError


async def test_metrics_tell_of_queues_watches_requests_and_the_lease(kube: Kube, unused_tcp_port: int) -> None:
    trade = Trade(kube.namespace)
    async with operator(kube, "one", trade.build, port=unused_tcp_port) as one:
        await eventually(lambda: trade.ended > 0)
        text = (await one.ask("/metrics"))[1]
    told = set(re.findall(r"^(sunk_kube_[a-z]+)_", text, re.MULTILINE))
    assert told >= {
        f"sunk_kube_{what}" for what in ("queue", "reconciles", "watch", "store", "lease", "limit", "events")
    }
    assert 'sunk_kube_requests_total{code="201",resource="leases",verb="create"} 1.0' in text


# As a process of its own


async def spawned(kube: Kube, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("sunk")),
        "operator",
        *arguments,
        stderr=asyncio.subprocess.PIPE,
        env={"SUNK_LEASE_NAMESPACE": kube.namespace, "SUNK_IDENTITY": "child", "SUNK_PORT": "0"},
    )


async def test_the_command_leads_until_it_is_told_to_stop_and_ends_with_zero(kube: Kube) -> None:
    child = await spawned(kube, "--kubeconfig", str(kube.kubeconfig), "--namespaces", kube.namespace)
    try:
        await led_by(kube, "child")
        child.send_signal(signal.SIGTERM)
        _, said = await asyncio.wait_for(child.communicate(), PATIENCE)
    finally:
        with suppress(ProcessLookupError):
            child.kill()
    assert child.returncode == 0, said.decode()
    assert await holder(kube) == ""
    assert b"released" in said


async def test_the_command_without_a_cluster_says_what_it_lacks(kube: Kube, tmp_path: Path) -> None:
    child = await spawned(kube, "--kubeconfig", str(tmp_path / "none"))
    _, said = await child.communicate()
    assert child.returncode == 2
    assert said.decode().startswith("sunk: ")
    assert "Traceback" not in said.decode()


async def test_the_command_refuses_what_cannot_be_a_namespace(kube: Kube) -> None:
    child = await spawned(kube, "--namespaces", "team-a, Team_B")
    _, said = await asyncio.wait_for(child.communicate(), PATIENCE)
    assert child.returncode == 2
    assert '"Team_B" is not a valid namespace' in said.decode()


async def test_the_command_whose_port_is_taken_says_so(kube: Kube) -> None:
    with socket.create_server(("0.0.0.0", 0)) as taken:  # noqa: S104 - as the operator does
        child = await spawned(
            kube, "--kubeconfig", str(kube.kubeconfig), "--port", str(taken.getsockname()[1]), "--identity", "late"
        )
        _, said = await asyncio.wait_for(child.communicate(), PATIENCE)
    assert child.returncode == 2
    assert "Choose another --port" in said.decode()
    assert "Traceback" not in said.decode()


async def test_one_that_may_not_use_the_lease_is_not_ready_and_says_why(
    kube: Kube, unused_tcp_port: int, tmp_path: Path
) -> None:
    by = access.from_kubeconfig(await as_account(kube, "default", folder=tmp_path))
    async with operator(kube, "one", port=unused_tcp_port, by=by) as one:
        async with asyncio.timeout(PATIENCE):
            said = ""
            while "the API server answered 403" not in said:
                with suppress(aiohttp.ClientError):
                    status, said = await one.ask("/readyz")
                    assert status == 503
                await asyncio.sleep(0.05)


async def as_account(kube: Kube, name: str, *, folder: Path) -> Path:
    """Write a kubeconfig that speaks as a service account."""
    path = f"/api/v1/namespaces/{kube.namespace}/serviceaccounts/{name}/token"
    made = json.decode(await kube.client.request("POST", path, body={"spec": {"expirationSeconds": 3600}}))
    config = yaml.safe_load(kube.kubeconfig.read_text())
    for user in config["users"]:
        user["user"] = {"token": made["status"]["token"]}
    (folder / "kubeconfig").write_text(yaml.safe_dump(config))
    return folder / "kubeconfig"
