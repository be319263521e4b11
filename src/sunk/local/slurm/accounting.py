"""Accounting for a Slurm on this machine: slurmdbd on the machine `accounting`, its MariaDB on the machine `database`.

The database runs out of the image that is shipped for it, as its user and through its entrypoint; slurmdbd out of the
image of all Slurm daemons. Both keep what they know when they are killed, as with a volume.
"""

from typing import Final

from sunk.local.slurm.boxes import network
from sunk.local.slurm.boxes.box import DATABASE_USER
from sunk.local.slurm.configuration import Settings

SERVE: Final = (
    *("setpriv", f"--reuid={DATABASE_USER}", f"--regid={DATABASE_USER}", "--clear-groups"),
    *("env", "MARIADB_PASSWORD_FILE=/etc/secret/password", "/serve"),
    # Seen by the kernel's table of IPv4 sockets, which is where readiness is looked for.
    *("--bind-address=0.0.0.0", "--innodb-buffer-pool-size=64M"),
)
SETTINGS: Final[Settings] = {
    "AccountingStorageType": "accounting_storage/slurmdbd",
    "AccountingStorageHost": network.address(network.ACCOUNTING),
    "AccountingStorageTRES": "gres/gpu",
    "AccountingStorageEnforce": "associations,limits,qos",
}


def slurmdbd_conf(*, password: str, auth: str) -> str:
    """What slurmdbd reads. Nobody but SlurmUser may: there is a password in it."""
    lines = {
        "AuthType": auth,
        "DbdHost": "accounting",
        "DbdAddr": network.address(network.ACCOUNTING),
        "SlurmUser": "slurm",
        "PidFile": "/run/slurmdbd/slurmdbd.pid",
        "StorageType": "accounting_storage/mysql",
        "StorageHost": network.address(network.DATABASE),
        "StorageUser": "slurm",
        "StoragePass": password,
        "StorageLoc": "slurm_acct_db",
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())
