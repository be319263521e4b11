"""Ask a syncer over HTTP, from the machine it runs on, as its kubelet does."""

import asyncio

from sunk.local.slurm import Slurm
from sunk.local.slurm.running import PYTHON

_ASK = """
import sys, urllib.request, urllib.error
try:
    answer = urllib.request.urlopen(f"http://127.0.0.1:8080/{sys.argv[1]}", timeout=30)
    print(answer.status, answer.read().decode())
except urllib.error.HTTPError as refused:
    print(refused.code, refused.read().decode())
except OSError as nobody:
    print(0, nobody)
"""


async def asked(slurm: Slurm, path: str, *, on: str = "syncer") -> tuple[int, str]:
    """The code, 0 if nobody answers, and the text."""
    answer = await asyncio.to_thread(slurm.run, PYTHON, "-c", _ASK, path, on=on)
    code, _, text = answer.partition(" ")
    return int(code), text
