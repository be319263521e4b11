"""Authentication by munge, for a Slurm on this machine: a munged beside every daemon, all with one key.

munged puts itself into the background, where the machine's process 1 takes it. So it is started by the same command
that then becomes the daemon, and outlives a daemon that is stopped alone; a second one refuses, and is not needed.
"""

import shlex
from collections.abc import Sequence
from typing import Final

from sunk.local.slurm.configuration import Settings

KEY: Final = "/etc/secret/munge.key"
FOLDER: Final = "/run/munge"
KEY_BYTES: Final = 128
SETTINGS: Final[Settings] = {"AuthType": "auth/munge", "CredType": "cred/munge", "AuthInfo": "cred_expire=5"}
_PLACES: Final = {
    "key-file": KEY,
    "socket": f"{FOLDER}/munge.socket.2",
    "pid-file": f"{FOLDER}/munged.pid",
    "seed-file": f"{FOLDER}/munged.seed",
    "log-file": f"{FOLDER}/munged.log",
}


def beside(daemon: Sequence[str]) -> tuple[str, ...]:
    """The command that starts both."""
    munged = shlex.join(["/usr/sbin/munged", *(f"--{name}={value}" for name, value in _PLACES.items())])
    return ("/bin/sh", "-c", f'{munged}; exec "$@"', "sh", *daemon)
