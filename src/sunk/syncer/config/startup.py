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
_GLANCE: Final = 0.005
_SAID: Final = 60
"""Tries between two words about the same trouble."""


async def trouble() -> str:
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
        await asyncio.sleep(_GLANCE)
    code = os.waitstatus_to_exitcode(ended[1])
    return f"libslurm ended with {code} over the configuration that is there, and has said why above" if code else ""


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
    if not await trouble():
        return True
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    found = ["not looked for yet"]
    health = Health()
    health.ready_while("slurm", lambda: found[0])
    async with served(health, Metrics(), host=host, port=port):
        return await _look(found, told=told)


async def _look(found: list[str], *, told: asyncio.Event) -> bool:
    tries = 0
    while not told.is_set():
        found[0] = await trouble()
        if not found[0]:
            return True
        if tries % _SAID == 0:
            log.warning("waiting for Slurm: %s", found[0])
        tries += 1
        with suppress(TimeoutError):
            async with asyncio.timeout(PERIOD):
                await told.wait()
    return False
