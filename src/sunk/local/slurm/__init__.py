"""x"""

from sunk.local.slurm.configuration import Node
from sunk.local.slurm.running import Slurm
from sunk.local.slurm.starting import cluster

__all__ = ["Node", "Slurm", "cluster"]
