"""Wait for a configuration that libslurm can be loaded with.

libslurm does not answer "no" to a configuration that is missing or bad: it ends the process. So it is tried in a child
first, which may end as it likes, and again until it goes well: sackd beside us may still wait for a slurmctld that is
just being made. Meanwhile probes are answered, since nobody is helped by a restart.
"""

import asyncio
import logging
import os
import signal
import sys
from contextlib import suppress
from typing import Final, NoReturn

from sunk.kube.process.health import Health, served
from sunk.kube.process.metrics import Metrics
from sunk.model.refusal import Refusal
from sunk.slurm.libslurm import loading

log = logging.getLogger(__name__)

PERIOD: Final = 0.5
PATIENCE: Final = 30.0
"""libslurm waits a while for what it does not get."""
_POLL: Final = 0.005
_LOGGED: Final = 60
"""Tries between two log lines about the same trouble."""


async def load_error() -> str:
    """Why libslurm cannot be loaded now; empty if it can. Loads nothing into this process."""
    try:
        loading.locate()
    except Refusal as refusal:
        return str(refusal)
    child = os.fork()
    if child == 0:
        _load_and_end()
    # Not as a process of the loop: that would be a new Python, which takes longer to start than libslurm.
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):  # noqa: ASYNC110, ASYNC222 - as said; it does not block
        await asyncio.sleep(_POLL)
    code = os.waitstatus_to_exitcode(ended[1])
    return f"libslurm rejected the configuration with exit code {code}; its output is above" if code else ""


def _load_and_end() -> NoReturn:
    """In the child. Whatever happens, nothing of the parent's may be run or flushed a second time."""
    code = 1
    try:
        signal.alarm(int(PATIENCE))
        loading.load()
        code = 0
    except BaseException as error:  # noqa: BLE001 - the child has nobody to raise it to
        os.write(sys.stderr.fileno(), f"{error}\n".encode())
    finally:
        os._exit(code)


async def until_usable(*, host: str, port: int) -> bool:
    """Answer probes until libslurm can be loaded; False if we are told to stop before."""
    if not await load_error():
        return True
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    reason = ["not checked yet"]
    health = Health()
    health.ready_while("slurm", lambda: reason[0])
    async with served(health, Metrics(), host=host, port=port):
        return await _retry(reason, stop=stop)


async def _retry(trouble: list[str], *, stop: asyncio.Event) -> bool:
    tries = 0
    while not stop.is_set():
        trouble[0] = await load_error()
        if not trouble[0]:
            return True
        if tries % _LOGGED == 0:
            log.warning("waiting for Slurm: %s", trouble[0])
        tries += 1
        with suppress(TimeoutError):
            async with asyncio.timeout(PERIOD):
                await stop.wait()
    return False
