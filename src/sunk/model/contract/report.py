"""What the syncer tells the SlurmCluster controller, in the status of the SlurmCluster.

There, and not in an annotation: the right to write a status is no right to change the spec, which decides what runs.

It is written when it changes, so nothing in it may change by itself: no ages, no counts of reads.
"""

from msgspec import Struct


class Report(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """How the syncer finds Slurm."""

    config: str = ""
    """The mark of the configuration that slurmctld runs; empty while nobody knows."""
    config_trouble: str = ""
    """Why the configuration that is wanted could not be brought into force yet."""
    version: str = ""
    """Of slurmctld, such as 24.11.5."""
    unseen: str = ""
    """Since when Slurm could not be read, and why; empty while it is read."""
    held: str = ""
    """Why nothing that destroys is done: what Slurm or Kubernetes shows cannot be believed."""
    delayed: str = ""
    """What is put off for a while, such as drains of many Pods that are not ready at once."""
    stuck: tuple[str, ...] = ()
    """What needs a person, one sentence each, at most ten."""
