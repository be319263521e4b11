"""Names of a Slurm cluster's objects that more than one process looks for, and the ports on which its daemons listen.

An object is called `<name of the SlurmCluster>-<suffix>`.
"""

from typing import Final

SLURM_CONF: Final = "slurm-conf"
"""ConfigMap: made by the operator, mounted by slurmctld, followed by the syncer."""
SLURMDBD_CONF: Final = "slurmdbd-conf"
AUTH_SLURM: Final = "auth-slurm"
"""Secret: the keys of auth/slurm. Made by the operator, changed by `sunk keys`."""
SYNCER: Final = "syncer"
"""Deployment, Service, Lease and Role of the syncer."""
USER_ACCOUNTS: Final = "user-accounts"
"""ConfigMap: made by the operator, empty. The syncer notes there who has been given an account in Slurm."""
HOOKS: Final = "hooks"
"""Secrets with the certificate of the syncer's hook API: the name ends in the id of the certificate."""
HOOKS_CA: Final = "hooks-ca"
"""ConfigMap: what compute Pods believe the hook API by."""

SLURMCTLD_PORT: Final = 6817
SLURMD_PORT: Final = 6818
SLURMDBD_PORT: Final = 6819
SLURMRESTD_PORT: Final = 6820
HOOKS_PORT: Final = 8443
"""The syncer's hook API."""
HEALTH_PORT: Final = 8080
"""/healthz, /readyz and /metrics of our own processes, unless told otherwise."""


def named(cluster: str, suffix: str) -> str:
    return f"{cluster}-{suffix}"
