"""Which names and numbers a user or group may have that the images do not have themselves.

libnss-extrausers overlooks numbers below 500, so that nobody becomes root by a file. A name of the images must not come a
second time either: of two users `slurm` one would have the rights and the other the password, and Debian lets everybody in a
group `sudo` become root.
"""

import re
from typing import Final

NAME: Final = re.compile(r"[a-z_][a-z0-9_.-]{0,31}")
LEAST: Final = 500
USERS_GROUP: Final = 100
"""Debian's group `users`, the one below 500 that libnss-extrausers lets a user have."""
NOBODY: Final = (1 << 32) - 1
TAKEN: Final = frozenset({64030, 64031, 64032, 65532, 65534, NOBODY})
"""Users of the images (slurm, slurmrestd, mysql, sunk), nobody, and the number that stands for none."""
DIGITS: Final = 10

_BOTH: Final = frozenset(
    {
        *("root", "daemon", "bin", "sys", "games", "man", "lp", "mail", "news", "uucp", "proxy", "www-data", "backup"),
        *("list", "irc", "_apt", "systemd-network", "systemd-journal", "systemd-timesync", "systemd-resolve"),
        *("messagebus", "polkitd", "sshd", "munge", "slurm", "slurmrestd", "mysql", "sunk", "sssd"),
    }
)
USERS: Final = _BOTH | {"sync", "nobody"}
GROUPS: Final = _BOTH | {
    *("adm", "tty", "disk", "kmem", "dialout", "fax", "voice", "cdrom", "floppy", "tape", "sudo", "audio", "dip"),
    *("operator", "src", "shadow", "utmp", "video", "sasl", "plugdev", "staff", "users", "nogroup", "input", "sgx"),
    *("clock", "kvm", "render", "crontab", "netdev", "ssh", "_ssh", "ssl-cert", "admin", "wheel", "root"),
}
"""`admin` and `wheel` are in no image of ours, but in those of others they are what `sudo` is here."""


def number(text: str) -> int | None:
    """A number as a person or a directory writes it; None if it is none. Python reads no number of thousands of digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS else None


def is_free(number: int) -> bool:
    """Whether a user or group that is not of the images may have this number."""
    return LEAST <= number < NOBODY and number not in TAKEN
