"""Which Secrets a cluster needs. Their contents are made once (`rollout.secrets`), and outlive the cluster.

Those with certificates of the hook API come and go (`rollout.certificates`); only their name is here.
"""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

from sunk.model.contract import clusterobjects, people
from sunk.model.contract.keyset import SLURM_KEY
from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.resolve import ResolvedCluster
from sunk.operator.slurmcluster.slurmconf.conf import JWT_KEY

PASSWORD: Final = "password"  # noqa: S105 - the name of a key

Content = Literal["auth", "jwt", "password", "ssh-ed25519", "ssh-rsa"]
"""What is under a key. Beside a private key of SSH comes the public one, under a key that ends with .pub."""


class NeededSecret(Struct, frozen=True):
    """A Secret, and what stands under each of its keys."""

    name: str
    keys: Mapping[str, Content]
    made: bool = True
    """Whether it is for us to make; else somebody else has to have done so."""
    at: str = ""
    """Where the values name it, if they do."""


def needed(cluster: ResolvedCluster) -> tuple[NeededSecret, ...]:
    wanted = [NeededSecret(auth(cluster), keys={SLURM_KEY: "auth"})]
    if cluster.spec.rest.enabled:
        wanted.append(NeededSecret(jwt(cluster), keys={JWT_KEY: "jwt"}))
    if serves_accounting(cluster):
        ours = serves_database(cluster)
        at = "" if ours else "accounting.external.existingSecret"
        wanted.append(NeededSecret(database(cluster), keys={PASSWORD: "password"}, made=ours, at=at))
    if cluster.spec.login.enabled:
        wanted.append(NeededSecret(cluster.named(people.HOST_KEYS), keys=_host_keys()))
    if cluster.spec.compute.ssh.enabled:
        wanted.append(NeededSecret(cluster.named(people.NODE_KEYS), keys=_host_keys()))
    return tuple(wanted)


def _host_keys() -> dict[str, Content]:
    """Old clients know no ed25519."""
    first, second = people.HOST_KEY_FILES
    return {first: "ssh-ed25519", second: "ssh-rsa"}


def daemons(cluster: ResolvedCluster) -> tuple[str, ...]:
    """The Secrets with the keys of slurmctld and slurmdbd."""
    return (auth(cluster), jwt(cluster)) if cluster.spec.rest.enabled else (auth(cluster),)


def auth(cluster: ResolvedCluster) -> str:
    return cluster.named(clusterobjects.AUTH_SLURM)


def jwt(cluster: ResolvedCluster) -> str:
    return cluster.named("jwt")


def hook_certificate(cluster: ResolvedCluster, certificate: str) -> str:
    """The Secret with a certificate of the hook API, by its id."""
    return f"{cluster.named(clusterobjects.HOOKS)}-{certificate}"


def database(cluster: ResolvedCluster) -> str:
    """The Secret with the password of the database, ours or somebody else's."""
    if serves_database(cluster):
        return cluster.named("mysql")
    if name := cluster.spec.accounting.external.existing_secret:
        return name
    raise Refusal(
        "accounting.external.existingSecret is empty: create a Secret with the database password under the key "
        f"{PASSWORD}, and set its name there."
    )


def serves_accounting(cluster: ResolvedCluster) -> bool:
    """Whether slurmdbd is ours."""
    accounting = cluster.spec.accounting
    if accounting.remote_host and accounting.external.host:
        raise Refusal(
            "accounting.remoteHost is an existing slurmdbd, accounting.external a database for a slurmdbd of this cluster: "
            "set only one of them."
        )
    return accounting.enabled and not accounting.remote_host


def serves_database(cluster: ResolvedCluster) -> bool:
    """Whether the database is ours."""
    return serves_accounting(cluster) and not cluster.spec.accounting.external.host
