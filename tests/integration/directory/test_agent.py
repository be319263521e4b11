"""The whole agent: directories on one side, the ConfigMaps of a real API server on the other."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, json
from tests.conftest import Kube
from tests.integration.directory.conftest import MakeServer
from tests.integration.directory.corp import secrets, values

from sunk.directory.agent import Folders
from sunk.directory.process import AgentOptions, serve
from sunk.kube.api.patch import Merge
from sunk.kube.auth import access
from sunk.kube.core import CONFIG_MAPS
from sunk.local.directory import GROUPS, PEOPLE, DirectoryServer, group, person
from sunk.model.cluster.directory import AgentSettings, Directory, DirectoryService
from sunk.model.contract import people
from sunk.model.contract.people import AVAILABLE, INVALID, SUSPECT, UNREACHABLE, PeopleReport
from sunk.model.names import ACCEPT_LOSS

CLUSTER = "slurm"
INTERVAL = 5
NAMES = ("users", "directory", *(f"directory-logins-{number}" for number in range(people.PARTS)))


class Stage(Struct):
    """What the operator would have made."""

    kube: Kube
    folders: Folders

    async def make(self, users: Mapping[str, str] | None = None) -> None:
        self.folders.settings.mkdir()
        for name in NAMES:
            body: dict[str, Any] = {"metadata": {"name": f"{CLUSTER}-{name}"}}
            if name == "users":
                body["data"] = {"passwd": "", "group": "", **(users or {})}
            await self.kube.client.create(CONFIG_MAPS, body, namespace=self.kube.namespace)

    def settle(self, *directories: Directory, **service: Any) -> None:
        settings = AgentSettings(
            service=DirectoryService(directories=directories, refresh_interval=INTERVAL, **service),
            users=f"{CLUSTER}-users",
            cluster=CLUSTER,
            namespace=self.kube.namespace,
        )
        # Moved into place, as kubelets do.
        fresh = self.folders.settings / "fresh"
        fresh.write_bytes(json.encode(settings))
        fresh.rename(self.folders.settings / people.SETTINGS_FILE)

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[None]:
        told = asyncio.Event()
        options = AgentOptions(CLUSTER, self.kube.namespace, self.folders, host="127.0.0.1", port=0)
        task = asyncio.create_task(serve(options, access=access.from_kubeconfig(self.kube.kubeconfig), told=told))
        try:
            yield
        finally:
            told.set()
            await task

    async def data(self, suffix: str = "directory") -> Mapping[str, str]:
        found = await self.kube.client.get(CONFIG_MAPS, f"{CLUSTER}-{suffix}", namespace=self.kube.namespace)
        return found.data or {}

    async def users(self) -> dict[str, int]:
        lines = [line.split(":") for line in (await self.data()).get("passwd", "").splitlines()]
        return {line[0]: int(line[2]) for line in lines}

    async def report(self) -> PeopleReport:
        text = (await self.data()).get("report", "")
        return json.decode(text, type=PeopleReport) if text else PeopleReport()

    async def states(self) -> dict[str, str]:
        return {each.name: each.state for each in (await self.report()).directories}

    async def until(self, read: Callable[[], Any], wanted: Any, *, seconds: float = 60.0) -> None:
        found = None
        try:
            async with asyncio.timeout(seconds):
                while (found := await read()) != wanted:
                    await asyncio.sleep(0.2)
        except TimeoutError:
            pytest.fail(f"still {found} instead of {wanted}; the report: {await self.report()}")


@pytest.fixture
def stage(kube: Kube, tmp_path: Path) -> Stage:
    return Stage(kube, Folders(settings=tmp_path / "settings", secrets=tmp_path / "secrets"))


async def test_two_directories_and_the_values_are_published_together(stage: Stage, make_server: MakeServer) -> None:
    one, two = make_server("one"), make_server("two")
    one.add(person("alice", 1001), person("bob", 1002), group("devs", 2000, "alice", "carol"))
    two.add(person("alice", 5001), person("carol", 1003), group("devs", 3000), group("ops", 3001, "carol"))
    for name, server in (("one", one), ("two", two)):
        secrets(server, stage.folders.secrets, name)
    await stage.make({"passwd": "local:*:9000:9000::/home/local:/bin/sh\n", "group": "local:*:9000:\n"})
    stage.settle(values(one, "one"), values(two, "two"))
    async with stage.agent():
        await stage.until(stage.users, {"local": 9000, "alice": 1001, "bob": 1002, "carol": 1003})
        data = await stage.data()
        assert data["group"] == "local:*:9000:\ndevs:*:2000:alice\nops:*:3001:carol\n"
        report = await stage.report()
        assert [(each.users, each.skipped) for each in report.directories] == [(2, 0), (1, 2)]
        settings = (stage.folders.settings / people.SETTINGS_FILE).read_text()
        assert report.settings == people.fingerprint(settings)
        logins = [await stage.data(f"directory-logins-{number}") for number in range(people.PARTS)]
        names = "".join(each[f"names-{number}"] for number, each in enumerate(logins))
        assert {line.split("\t")[0]: line.split("\t")[1] for line in names.splitlines()} == {
            "alice": "one",
            "bob": "one",
            "carol": "two",
        }


async def test_changes_are_published_and_rest_is_rest(stage: Stage, server: DirectoryServer) -> None:
    server.add(person("alice", 1001))
    secrets(server, stage.folders.secrets)
    await stage.make()
    stage.settle(values(server))
    async with stage.agent():
        await stage.until(stage.users, {"alice": 1001})
        version = await _version(stage)
        searches = server.searches()
        await asyncio.sleep(3 * INTERVAL)
        assert await _version(stage) == version
        assert server.searches() - searches <= 2 * 4
        server.add(person("bob", 1002))
        await stage.until(stage.users, {"alice": 1001, "bob": 1002})
        server.delete(f"uid=bob,{PEOPLE}")
        await stage.until(stage.users, {"alice": 1001})


async def test_a_directory_that_is_down_keeps_its_users_also_for_a_new_agent(
    stage: Stage, make_server: MakeServer
) -> None:
    one, two = make_server("one"), make_server("two")
    one.add(person("alice", 1001), group("devs", 2000, "alice"))
    two.add(person("bob", 1002))
    for name, server in (("one", one), ("two", two)):
        secrets(server, stage.folders.secrets, name)
    await stage.make()
    stage.settle(values(one, "one"), values(two, "two"))
    async with stage.agent():
        await stage.until(stage.users, {"alice": 1001, "bob": 1002})
        one.stop()
        two.add(person("carol", 1003))
        await stage.until(stage.users, {"alice": 1001, "bob": 1002, "carol": 1003})
        await stage.until(stage.states, {"one": UNREACHABLE, "two": AVAILABLE})
    async with stage.agent():
        two.add(person("dora", 1004))
        await stage.until(stage.users, {"alice": 1001, "bob": 1002, "carol": 1003, "dora": 1004})
        assert "devs:*:2000:alice\n" in (await stage.data())["group"]
        one.start()
        await stage.until(stage.states, {"one": AVAILABLE, "two": AVAILABLE})
        # Down keeps them; removed does not.
        one.stop()
        stage.settle(values(two, "two"))
        await stage.until(stage.users, {"bob": 1002, "carol": 1003, "dora": 1004})


async def test_members_that_are_gone_at_once_stay_until_a_person_says_so(stage: Stage, server: DirectoryServer) -> None:
    names = [f"u{each}" for each in range(8)]
    server.add(*(person(name, 1001 + each) for each, name in enumerate(names)), group("devs", 2000, *names))
    secrets(server, stage.folders.secrets)
    await stage.make()
    stage.settle(values(server))

    async def members() -> str:
        return (await stage.data()).get("group", "")

    async with stage.agent():
        full = f"devs:*:2000:{','.join(names)}\n"
        await stage.until(members, full)
        server.modify(f"dn: cn=devs,{GROUPS}\nchangetype: modify\ndelete: memberUid\n")
        await stage.until(stage.states, {"corp": SUSPECT})
        assert await members() == full
        patch = Merge({"metadata": {"annotations": {ACCEPT_LOSS: "8"}}})
        await stage.kube.client.patch(CONFIG_MAPS, f"{CLUSTER}-directory", patch, namespace=stage.kube.namespace)
        await stage.until(members, "devs:*:2000:\n")
        await stage.until(stage.states, {"corp": AVAILABLE})


async def test_a_directory_that_hangs_holds_up_nobody(stage: Stage, make_server: MakeServer) -> None:
    one, two = make_server("one"), make_server("two")
    two.add(person("bob", 1002))
    for name, server in (("one", one), ("two", two)):
        secrets(server, stage.folders.secrets, name)
    one.pause()
    await stage.make()
    stage.settle(values(one, "one"), values(two, "two"))
    async with stage.agent():
        await stage.until(stage.users, {"bob": 1002}, seconds=90)
        two.add(person("carol", 1003))
        await stage.until(stage.users, {"bob": 1002, "carol": 1003})


async def test_a_secret_that_comes_late_needs_no_restart(stage: Stage, server: DirectoryServer) -> None:
    server.add(person("alice", 1001))
    await stage.make()
    stage.settle(values(server))
    async with stage.agent():
        await stage.until(stage.states, {"corp": INVALID})
        (found,) = (await stage.report()).directories
        assert found.message.startswith("directoryService.directories[0].ldapsCert: Secret corp-tls does not exist")
        secrets(server, stage.folders.secrets)
        await stage.until(stage.users, {"alice": 1001})


async def test_what_somebody_else_empties_is_filled_again(stage: Stage, server: DirectoryServer) -> None:
    server.add(person("alice", 1001))
    secrets(server, stage.folders.secrets)
    await stage.make()
    stage.settle(values(server))
    async with stage.agent():
        await stage.until(stage.users, {"alice": 1001})
        emptied = Merge({"data": None})
        for name in NAMES[1:]:
            await stage.kube.client.patch(CONFIG_MAPS, f"{CLUSTER}-{name}", emptied, namespace=stage.kube.namespace)
        await stage.until(stage.users, {"alice": 1001})
        await stage.kube.client.delete(CONFIG_MAPS, f"{CLUSTER}-directory", namespace=stage.kube.namespace)
        await asyncio.sleep(INTERVAL)
        body = {"metadata": {"name": f"{CLUSTER}-directory"}}
        await stage.kube.client.create(CONFIG_MAPS, body, namespace=stage.kube.namespace)
        await stage.until(stage.users, {"alice": 1001}, seconds=90)


async def test_two_agents_do_no_harm(stage: Stage, server: DirectoryServer) -> None:
    server.add(person("alice", 1001))
    secrets(server, stage.folders.secrets)
    await stage.make()
    stage.settle(values(server))
    async with stage.agent(), stage.agent():
        await stage.until(stage.users, {"alice": 1001})
        server.add(person("bob", 1002))
        await stage.until(stage.users, {"alice": 1001, "bob": 1002})
        await asyncio.sleep(2 * INTERVAL)
        version = await _version(stage)
        await asyncio.sleep(2 * INTERVAL)
        assert await _version(stage) == version


async def test_more_users_than_fit_leave_everything_as_it_was(stage: Stage, make_server: MakeServer) -> None:
    one, two = make_server("one"), make_server("two")
    one.add(person("alice", 1001))
    two.add(person("bob", 1002))
    for name, server in (("one", one), ("two", two)):
        secrets(server, stage.folders.secrets, name)
    await stage.make()
    stage.settle(values(one, "one"), values(two, "two"))
    async with stage.agent():
        await stage.until(stage.users, {"alice": 1001, "bob": 1002})
        long = "/home/" + "x" * 900
        one.add(*(person(f"user{each:04}", 10_000 + each, homeDirectory=f"{long}{each}") for each in range(1000)))
        two.add(person("carol", 1003))
        await stage.until(stage.users, {"alice": 1001, "bob": 1002, "carol": 1003}, seconds=120)
        await stage.until(stage.states, {"one": INVALID, "two": AVAILABLE}, seconds=120)


async def test_settings_that_make_no_sense_change_nothing(stage: Stage, server: DirectoryServer) -> None:
    server.add(person("alice", 1001))
    secrets(server, stage.folders.secrets)
    await stage.make()
    stage.settle(values(server))
    async with stage.agent():
        await stage.until(stage.users, {"alice": 1001})
        (stage.folders.settings / people.SETTINGS_FILE).write_text("{")
        server.add(person("bob", 1002))
        await stage.until(stage.users, {"alice": 1001, "bob": 1002})


async def _version(stage: Stage) -> str:
    found = await stage.kube.client.get(CONFIG_MAPS, f"{CLUSTER}-directory", namespace=stage.kube.namespace)
    return found.metadata.resource_version
