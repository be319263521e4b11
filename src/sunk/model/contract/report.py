"""What the syncer tells the SlurmCluster controller, in the status of the SlurmCluster.

There, and not in an annotation: the right to write a status is no right to change the spec, which decides what runs.

It is written when it changes, so nothing in it may change by itself: no ages, no counts of reads.
"""

from msgspec import Struct


class Report(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What the syncer reports about Slurm."""

    config: str = ""
    """Hash of the configuration that slurmctld runs; empty while unknown."""
    config_trouble: str = ""
    """Why the wanted configuration is not applied yet."""
    version: str = ""
    """Version of slurmctld, such as 24.11.5."""
    unseen: str = ""
    """Since when the syncer cannot read Slurm, and why; empty while it can."""
    held: str = ""
    """Why deletions are held back: what Slurm or Kubernetes shows is not plausible."""
    delayed: str = ""
    """What is delayed for a while, such as drains when many Pods become not ready at once."""
    stuck: tuple[str, ...] = ()
    """Problems that need manual action, at most ten."""
