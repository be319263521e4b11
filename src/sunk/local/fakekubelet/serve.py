"""Ways to run a fake kubelet: in this process for the length of a block, as a child process, or until told to stop."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, NoReturn

from msgspec import Struct, json

from sunk.kube.api.client import Client
from sunk.kube.auth import access
from sunk.kube.auth.credentials import AccessError
from sunk.local.fakekubelet.kubelet import FakeKubelet
from sunk.local.fakekubelet.settings import Settings
from sunk.model.refusal import Refusal

READY: Final = b"ready\n"


class ChildArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """What a child process is told: a fleet, and where its API server is."""

    settings: Settings
    kubeconfig: str | None = None


@asynccontextmanager
async def fake_kubelet(settings: Settings, *, kubeconfig: Path | str | None = None) -> AsyncIterator[FakeKubelet]:
    """Play kubelet in this process. The block begins when all Nodes are registered; at its end the fleet goes."""
    async with _running(settings, kubeconfig=kubeconfig) as (kubelet, _):
        yield kubelet


async def run(
    settings: Settings, *, kubeconfig: Path | str | None = None, ready: Callable[[], None] | None = None
) -> None:
    """Play kubelet until SIGTERM or SIGINT; `ready` is called when all Nodes are registered."""
    told, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    try:
        async with _running(settings, kubeconfig=kubeconfig) as (_, running):
            if ready is not None:
                ready()
            await _first(told, running)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


@asynccontextmanager
async def spawned(settings: Settings, *, kubeconfig: Path | str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Play kubelet in a child process, so that it takes nothing from the loop under test."""
    order = json.encode(ChildArguments(settings, str(kubeconfig))).decode()
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "sunk.local.fakekubelet", order, stdout=asyncio.subprocess.PIPE
    )
    try:
        if child.stdout is None or await child.stdout.readline() != READY:
            raise Refusal(
                f"the fake kubelet exited with code {await child.wait()} before it was ready: see its output above"
            )
        yield child
    finally:
        with suppress(ProcessLookupError):
            child.terminate()
        await child.wait()


@asynccontextmanager
async def _running(
    settings: Settings, *, kubeconfig: Path | str | None
) -> AsyncIterator[tuple[FakeKubelet, asyncio.Task[NoReturn]]]:
    async with Client(_find(kubeconfig)) as client:
        kubelet = FakeKubelet(client, settings)
        # Owned by this block and not by a TaskGroup: that would wrap whatever the block raises into a group, and
        # could not be entered and left by different tasks, as pytest does with fixtures.
        running = asyncio.create_task(kubelet.run(), name=f"fake kubelet: fleet {settings.fleet}")
        try:
            await _first(kubelet.ready, running)
            yield kubelet, running
        finally:
            try:
                await _stop(running)
            finally:
                if not settings.keep:
                    await kubelet.clear()


def _find(kubeconfig: Path | str | None) -> access.Access:
    try:
        return access.find(kubeconfig)
    except AccessError as error:
        raise Refusal(str(error)) from error


async def _first(event: asyncio.Event, running: asyncio.Task[NoReturn]) -> None:
    """Wait for the event, or for the kubelet to fail."""
    waiting = asyncio.create_task(event.wait(), name="fake kubelet: wait")
    try:
        await asyncio.wait((waiting, running), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    if running.done():
        await _stop(running)


async def _stop(running: asyncio.Task[NoReturn]) -> None:
    """End the kubelet; if it had failed before, say so with the one reason it had."""
    running.cancel()
    try:
        await running
    except asyncio.CancelledError:
        return
    except BaseExceptionGroup as many:
        raise _plain(many) from None


def _plain(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
