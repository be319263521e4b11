"""The part of the prolog that waits for the lock, as a program, against a real HTTPS server.

`scontrol` and `sinfo` on its PATH only write down how they were called. What a real Slurm makes of it is tried in
tests/integration.
"""

import asyncio
import os
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from msgspec import Struct
from tests.unit.operator.slurmcluster.clusters import built, cluster

from sunk.model.contract import hooks
from sunk.operator.slurmcluster.compute import scripts
from sunk.operator.slurmcluster.rollout.issuing import NewCertificate, issue

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
TOKEN = "eyJ.secret.token"  # noqa: S105 - nobody believes it
ENV = {"SLURM_JOB_ID": "4711", "SLURM_JOB_RESTART_COUNT": "2", "SLURMD_NODENAME": "slurm-cpu-1"}
DRAINED = "Name State=IDLE+DRAIN ThreadsPerCore=1"
CLUSTER = cluster({"compute": {"nodes": {"cpu": {"enabled": True}}}, "syncer": {"nodePermissions": {"enabled": True}}})
SECONDS = 3
"""For those that wait until the time is over. All others have plenty, because this machine may be busy."""
PLENTY = 120


class Ended(Struct, frozen=True):
    code: int
    log: str
    seconds: float


class Place:
    """A compute Pod's files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token_folder, self.flag = folder / "run/hooks", folder / "run/hooks-unreached"
        self.calls = folder / "calls"
        self.made = issue(("localhost",), now=datetime.now(UTC))
        for each in ("run/hooks", "scripts", "bin", "tls"):
            (folder / each).mkdir(parents=True)
        (self.token_folder / "token").write_text(TOKEN)
        (self.token_folder / "ca.crt").write_text(self.made.ca)
        self.seconds = PLENTY
        self.state("Name State=IDLE ThreadsPerCore=1", "none")
        self.settings()
        texts = scripts.around_jobs(CLUSTER)
        texts["hello"] = built(CLUSTER, "ConfigMap", "slurm-compute-s6")["data"][f"{scripts.HELLO}.script"]
        for name in ("prelock", "hooks", "sick", "prolog", "hello", "reboot"):
            self.write(f"scripts/{name}", self._here(texts[name]))

    def _here(self, text: str) -> str:
        here = {
            "/etc/sunk": str(self.folder),
            "/run/sunk": str(self.folder / "run"),
            "PATH=/usr/sbin:": f"PATH={self.folder}/bin:/usr/sbin:",
            "REFUSALS_MS=20000": "REFUSALS_MS=1000",
            "rest 5000": "rest 1000",
            "PAUSE_MS=2000": "PAUSE_MS=100",
        }
        for there, place in here.items():
            text = text.replace(there, place)
        return text

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)

    def state(self, shown: str, reason: str) -> None:
        """What Slurm says of the node."""
        for program, said in (("scontrol", shown), ("sinfo", reason)):
            record = f'#!/bin/bash\nprintf "%s|" {program} "$@" >> {self.calls}\necho >> {self.calls}\n'
            self.write(f"bin/{program}", f"{record}echo '{said}'\n")

    def settings(self, *, port: int = 1) -> None:
        text = scripts.hook_settings(CLUSTER).replace("slurm-syncer.team.svc:8443", f"localhost:{port}")
        (self.folder / "scripts/hook-settings").write_text(text.replace("timeout='300'", f"timeout='{self.seconds}'"))

    def drains(self) -> list[str]:
        if not self.calls.exists():
            return []
        lines = [line.split("|") for line in self.calls.read_text().splitlines()]
        return [line[4].removeprefix("reason=") for line in lines if line[:2] == ["scontrol", "update"]]

    async def run(self, name: str = "prelock", **env: str) -> Ended:
        begun = time.monotonic()
        program = await asyncio.create_subprocess_exec(
            self.folder / "scripts" / name,
            env=ENV | {"https_proxy": "http://localhost:9"} | env,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        _, log = await program.communicate()
        assert program.returncode is not None
        return Ended(program.returncode, log.decode(), time.monotonic() - begun)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@asynccontextmanager
async def serving(place: Place, handler: Handler, *, by: NewCertificate | None = None) -> AsyncIterator[None]:
    made, folder = by or place.made, place.folder / "tls"
    (folder / "tls.crt").write_text(made.certificate)
    (folder / "tls.key").write_text(made.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    app = web.Application()
    app.router.add_route("*", "/v1/{tail:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "localhost", 0, ssl_context=context)
    await site.start()
    place.settings(port=runner.addresses[0][1])
    try:
        yield
    finally:
        await runner.cleanup()


def answers(*replies: tuple[int, Any]) -> Handler:
    """Give these in turn, and the last one for ever."""
    left = list(replies)

    async def handler(_: web.Request) -> web.StreamResponse:
        status, body = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(body, bytes):
            return web.Response(status=status, body=body)
        return web.json_response(body, status=status)

    return handler


LOCKED = (200, {"result": "locked"})


async def test_it_says_who_it_is_and_for_which_run_it_asks(place: Place) -> None:
    seen: list[tuple[str, str, str, Any]] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append((request.method, request.path, request.headers["Authorization"], await request.json()))
        return web.json_response(LOCKED[1])

    async with serving(place, handler):
        assert (await place.run()).code == 0
        assert (await place.run(SLURM_JOB_EXTRA=f"{hooks.PLACEHOLDER}team/web-1")).code == 0
        assert (await place.run(SLURM_JOB_EXTRA="x" + hooks.PLACEHOLDER)).code == 0
    method, path, authorization, body = seen[0]
    assert (method, path) == ("POST", "/v1/nodes/slurm-cpu-1/pre-hook")
    assert authorization == f"Bearer {TOKEN}"
    assert body == {"job": 4711, "restarts": 2, "strict": False, "timeout": body["timeout"]}
    assert PLENTY - 60 < body["timeout"] < PLENTY, "the syncer answers before the call is given up"
    assert [body["strict"] for *_, body in seen] == [False, True, False]
    assert not place.calls.exists()


@pytest.mark.parametrize("result", ["locked", "not-needed"])
async def test_the_job_starts_if_the_node_is_locked_or_the_job_is_over(place: Place, result: str) -> None:
    async with serving(place, answers((200, {"result": result}))):
        ended = await place.run()
    assert (ended.code, place.drains(), place.flag.exists()) == (0, [], False)


async def test_time_over_drains_the_node_with_the_words_that_a_verification_looks_for(place: Place) -> None:
    async with serving(place, answers((408, {"result": "timeout", "pods": ["web/stubborn-1"]}))):
        ended = await place.run()
    assert ended.code == 1
    assert place.drains() == ["prolog pre-hook failed (sunk:verify-undrain)"]
    assert "web/stubborn-1" in ended.log
    assert not place.flag.exists()


@pytest.mark.parametrize("status", [400, 401, 403, 413])
async def test_a_refusal_is_tried_again_for_a_moment_and_then_said(place: Place, status: int) -> None:
    async with serving(place, answers((status, {"error": "that is not you"}))):
        ended = await place.run()
    assert ended.code == 1
    assert place.drains() == [hooks.UNREACHED]
    assert place.flag.exists()
    assert f"status {status}: " in ended.log
    assert "that is not you" in ended.log
    assert ended.seconds < PLENTY, "it need not take all the time"


@pytest.mark.parametrize(
    "reply",
    [
        (404, {"error": "unknown Pod"}),
        (503, {"error": "not ready"}),
        (500, b"<html>"),
        (302, b""),
        (200, b"\0\xff\nlocked"),
        (200, b""),
        (200, {"result": "perhaps"}),
        (408, b"a gateway"),
    ],
    ids=str,
)
async def test_what_may_get_better_is_tried_until_the_time_is_over(place: Place, reply: tuple[int, Any]) -> None:
    place.seconds = SECONDS
    async with serving(place, answers(reply)):
        ended = await place.run()
    assert ended.code == 1
    assert place.drains() == [hooks.UNREACHED]
    assert place.flag.exists()
    assert f"status {reply[0]}: " in ended.log
    assert SECONDS - 1.5 < ended.seconds < PLENTY


@pytest.mark.parametrize("first", [400, 401, 403, 404, 413, 500, 503])
async def test_it_recovers_in_the_middle(place: Place, first: int) -> None:
    async with serving(place, answers((first, {"error": "wait"}), (first, {"error": "wait"}), LOCKED)):
        ended = await place.run()
    assert (ended.code, place.drains(), place.flag.exists()) == (0, [], False)


async def test_nobody_listens(place: Place) -> None:
    place.seconds = SECONDS
    place.settings()
    ended = await place.run()
    assert (ended.code, place.drains(), place.flag.exists()) == (1, [hooks.UNREACHED], True)
    assert "Last answer: nothing. Last failure: Failed to connect" in ended.log


async def test_a_server_that_comes_in_the_middle_is_found(place: Place) -> None:
    async with serving(place, answers(LOCKED)):
        pass  # the port is known, and nobody listens there any more
    port = int((place.folder / "scripts/hook-settings").read_text().split("localhost:")[1].split("'")[0])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place.folder / "tls/tls.crt", place.folder / "tls/tls.key")
    running = asyncio.create_task(place.run())
    await asyncio.sleep(1)
    app = web.Application()
    app.router.add_route("*", "/v1/{tail:.*}", answers(LOCKED))
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "localhost", port, ssl_context=context).start()
    assert (await running).code == 0
    await runner.cleanup()


async def test_a_server_that_is_not_the_syncer_gets_no_token(place: Place) -> None:
    heard: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        heard.append(request.headers.get("Authorization", ""))
        return web.json_response(LOCKED[1])

    place.seconds = SECONDS
    async with serving(place, handler, by=issue(("localhost",), now=datetime.now(UTC))):
        ended = await place.run()
    assert (ended.code, place.drains(), heard) == (1, [hooks.UNREACHED], [])
    assert "certificate" in ended.log


async def test_a_bundle_that_is_renewed_in_the_middle_is_read(place: Place) -> None:
    other = issue(("localhost",), now=datetime.now(UTC))
    async with serving(place, answers(LOCKED), by=other):
        running = asyncio.create_task(place.run())
        await asyncio.sleep(1)
        (place.token_folder / "ca.crt").write_text(place.made.ca + other.ca)
        assert (await running).code == 0


async def test_a_server_that_says_nothing_does_not_hold_it_for_ever(place: Place) -> None:
    async def handler(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        raise AssertionError

    place.seconds = SECONDS
    async with serving(place, handler):
        ended = await place.run()
    assert (ended.code, place.drains()) == (1, [hooks.UNREACHED])
    assert SECONDS - 1 < ended.seconds < 60


async def test_an_answer_that_takes_its_time_is_waited_for(place: Place) -> None:
    async def handler(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(2)
        return web.json_response(LOCKED[1])

    async with serving(place, handler):
        assert (await place.run()).code == 0


@pytest.mark.parametrize(
    ("reply", "state", "reason", "expected"),
    [
        ((408, {"result": "timeout", "pods": []}), DRAINED, "k8s: cordon", [hooks.TIMED_OUT]),
        ((408, {"result": "timeout", "pods": []}), DRAINED, "bob: bad fan", []),
        ((503, {}), DRAINED, "k8s: cordon", []),
        ((503, {}), DRAINED, "bob: bad fan", []),
        ((503, {}), "Name State=FAIL ", "none", []),
        ((503, {}), "Name State=DOWN ", "bob: bad fan", []),
        ((503, {}), "Name State=DOWN ", "Not responding", [hooks.UNREACHED]),
        ((503, {}), "Name State=DOWN ", "none", [hooks.UNREACHED]),
    ],
)
async def test_what_others_have_said_of_the_node_stays(
    place: Place, reply: tuple[int, Any], state: str, reason: str, expected: list[str]
) -> None:
    place.state(state, reason)
    place.seconds = PLENTY if reply[0] == 408 else SECONDS
    async with serving(place, answers(reply)):
        assert (await place.run()).code == 1
    assert place.drains() == expected


async def test_a_slurmctld_that_does_not_answer_is_asked_again_before_anything_is_said(place: Place) -> None:
    """A person may have drained the node, and a drain by us would be lifted one day."""
    place.write(
        "bin/scontrol", f'#!/bin/bash\nprintf "%s|" scontrol "$@" >> {place.calls}\necho >> {place.calls}\nexit 1\n'
    )
    place.seconds = SECONDS
    async with serving(place, answers((503, {}))):
        assert (await place.run()).code == 1
    assert place.drains() == []
    assert place.calls.read_text().count("show|node") == 4


async def test_work_that_had_little_time_to_leave_is_not_blamed(place: Place) -> None:
    """The syncer was away until shortly before the end: the drain must be one that ends by itself."""
    place.seconds = 6

    async def late(request: web.Request) -> web.StreamResponse:
        if (await request.json())["timeout"] * 2 >= place.seconds:
            return web.json_response({}, status=503)
        return web.json_response({"result": "timeout"}, status=408)

    async with serving(place, late):
        assert (await place.run()).code == 1
    assert place.drains() == [hooks.UNREACHED]
    assert place.flag.exists()


@pytest.mark.parametrize("missing", ["hooks", "hook-settings"])
async def test_without_its_own_files_no_job_starts(place: Place, missing: str) -> None:
    (place.folder / "scripts" / missing).unlink()
    ended = await place.run()
    assert (ended.code, place.drains()) == (1, [])


async def test_a_pod_that_was_made_before_there_were_hooks_starts_its_jobs(place: Place) -> None:
    for each in place.token_folder.iterdir():
        each.unlink()
    place.token_folder.rmdir()
    ended = await place.run()
    assert (ended.code, place.drains()) == (0, [])
    assert "not waiting" in ended.log


def exposed(text: str) -> Iterator[str]:
    """Command lines and environments of our processes that hold a text."""
    for folder in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            with suppress(OSError):
                if folder.stat().st_uid == os.getuid() and text.encode() in (folder / name).read_bytes():
                    yield str(folder / name)


async def test_the_token_is_in_no_command_line_and_no_environment(place: Place) -> None:
    found: list[str] = []

    async def handler(_: web.Request) -> web.StreamResponse:
        found.extend(exposed(TOKEN))
        return web.json_response(LOCKED[1])

    async with serving(place, handler):
        assert (await place.run()).code == 0
    assert found == []


async def test_scripts_of_people_run_after_it_and_only_if_the_node_is_locked(place: Place) -> None:
    (place.folder / "prolog.d").mkdir()
    place.write("prolog.d/10-mine", f"#!/bin/bash\ntouch {place.folder}/ran\n")
    async with serving(place, answers((408, {"result": "timeout", "pods": []}))):
        assert (await place.run("prolog")).code == 1
        assert not (place.folder / "ran").exists()
    async with serving(place, answers(LOCKED)):
        assert (await place.run("prolog")).code == 0
    assert (place.folder / "ran").exists()


async def test_the_service_calls_until_it_is_answered_and_then_rests(place: Place) -> None:
    seen: list[tuple[str, str]] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append((request.method, request.path))
        return web.json_response({}, status=200 if len(seen) > 1 else 503)

    async with serving(place, handler):
        program = await asyncio.create_subprocess_exec(
            place.folder / "scripts/hello", env={"POD_NAME": "slurm-cpu-1"}, stderr=asyncio.subprocess.PIPE
        )
        try:
            async with asyncio.timeout(60):
                while len(seen) < 2 or place.flag.exists():
                    await asyncio.sleep(0.05)
            await asyncio.sleep(2)
        finally:
            program.kill()
            await program.wait()
    assert seen == [("GET", "/v1/nodes/slurm-cpu-1/hello")] * 2


async def test_a_drain_that_is_set_while_the_service_is_answered_keeps_its_flag(place: Place) -> None:
    seen: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        if not seen:
            place.flag.touch()  # as a prolog does whose drain the answer does not know of
        seen.append(request.path)
        return web.json_response({})

    async with serving(place, handler):
        program = await asyncio.create_subprocess_exec(
            place.folder / "scripts/hello", env={"POD_NAME": "slurm-cpu-1"}, stderr=asyncio.subprocess.PIPE
        )
        try:
            async with asyncio.timeout(60):
                while len(seen) < 2 or place.flag.exists():
                    await asyncio.sleep(0.05)
        finally:
            program.kill()
            await program.wait()


async def test_an_answer_to_the_service_just_before_the_drain_does_not_lose_the_flag(place: Place) -> None:
    place.seconds = SECONDS
    place.settings()
    place.state("Name State=IDLE ThreadsPerCore=1", "none")
    taken = (place.folder / "bin/scontrol").read_text() + f"rm -f {place.flag}\n"
    place.write("bin/scontrol", taken)
    ended = await place.run()
    assert (ended.code, place.drains(), place.flag.exists()) == (1, [hooks.UNREACHED], True)


async def test_a_reboot_is_asked_for_until_it_is_granted(place: Place) -> None:
    seen: list[tuple[str, str]] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append((request.method, request.path))
        return web.json_response({"result": "requested"}, status=200 if len(seen) > 1 else 503)

    async with serving(place, handler):
        assert (await place.run("reboot", SLURMD_NODENAME="", POD_NAME="slurm-cpu-1")).code == 0
    assert seen == [("POST", "/v1/nodes/slurm-cpu-1/reboot")] * 2


async def test_a_reboot_that_is_refused_says_why(place: Place) -> None:
    async with serving(place, answers((403, {"message": "Reboots are not allowed"}))):
        ended = await place.run("reboot")
    assert ended.code == 1
    assert "asked 5 times: status 403: " in ended.log
    assert "Reboots are not allowed" in ended.log
    ended = await place.run("reboot")
    assert ended.code == 1
    assert "Failed to connect" in ended.log
    assert place.drains() == []


def test_without_a_syncer_nothing_waits() -> None:
    alone = scripts.around_jobs(cluster({"syncer": {"enabled": False}}))
    assert "prelock" not in alone
    assert "prelock" not in alone["prolog"]


@pytest.mark.parametrize("syncer", [{}, {"enabled": False, "nodePermissions": {"enabled": True}}])
def test_without_permission_or_syncer_there_is_no_program_for_reboots(syncer: dict[str, Any]) -> None:
    assert "reboot" not in scripts.around_jobs(cluster({"syncer": syncer}))
