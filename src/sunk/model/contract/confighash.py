"""The mark of a configuration: its hash, put into slurm.conf itself as a parameter that slurmctld does not know and keeps.

So who asks slurmctld learns what it has really read, and not what lies in a file.
"""

from typing import Final

FILE: Final = "slurm.conf"
PARAMETER: Final = "sunk_config"
LINE: Final = "SlurmctldParameters="


def read(text: str) -> str:
    """The mark in a slurm.conf; empty if it has none. The last line of that name is the one that counts."""
    lines = [line.removeprefix(LINE) for line in text.splitlines() if line.startswith(LINE)]
    words = lines[-1].split(",") if lines else ()
    begin = f"{PARAMETER}="
    return next((word.removeprefix(begin) for word in words if word.startswith(begin)), "")
