"""Thousands of Slurm nodes for cost measurements, which no machine of this size could run as many slurmd.

On 24.11 a node without slurmd that Slurm shows as simply IDLE does not exist: one that never answered is UNKNOWN and
cannot be undrained, a CLOUD node is POWERED_DOWN, one resumed from DOWN stays NOT_RESPONDING. But Slurm asks a node
for a sign of life by its address and looks at no name in the answer. So all nodes of the crowd have the address of
one real slurmd, on the machine `crowd`. They become IDLE some seconds after slurmctld started, can be drained and
undrained, have features, extra and comments; drains and their reverse cost what they cost. From 26.05 on there are
EXTERNAL nodes, which Slurm does not ask for anything.

What they cannot do is run jobs: a prolog never ends there. They have a high weight, so that jobs prefer real nodes.
And no `scontrol reconfigure` with a crowd: the one slurmd would be sent its configuration once for every node.
Restart slurmctld instead.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from sunk.local.artifacts import images
from sunk.local.slurm.boxes import network
from sunk.local.slurm.configuration import CONTROLLER, PARTITIONS, Node, Settings, merge, nodes as spell
from sunk.local.slurm.running import Slurm
from sunk.local.slurm.starting import cluster
from sunk.model import hostlist

CROWD: Final = "crowd"
SINCE_EXTERNAL: Final = (26, 5)
SHAPE: Final = "CPUs=16 RealMemory=64000 Feature=crowd Weight=1000"
PATIENCE: Final = 240.0
ADDRESS: Final = network.address(network.FIRST_NODE)
# Asking thousands of nodes every few seconds for a sign of life would be all that slurmctld does.
QUIET: Final[Settings] = {"SlurmdTimeout": 7200}
_NOTHING: Final[Mapping[str, str]] = {}


@contextmanager
def many_nodes(
    wanted: int | Sequence[str],
    *,
    nodes: int | Sequence[Node | str] = 0,
    version: str = images.DEFAULT,
    config: Settings = _NOTHING,
    lines: Sequence[str] = PARTITIONS,
) -> Iterator[Slurm]:
    """Give a cluster with IDLE nodes beside the real ones: so many, called sim0001, sim0002, …, or those named."""
    called = names(wanted) if isinstance(wanted, int) else list(wanted)
    settings = merge(merge(QUIET, {"MaxNodeCount": len(called) + 1000}), config)
    crowd = hostlist.compress(called)
    if external(version):
        with cluster(nodes=nodes, version=version, config=settings, lines=lines) as made:
            made.run("scontrol", "create", f"NodeName={crowd}", *SHAPE.split(), "State=EXTERNAL", on=CONTROLLER)
            yield made
        return
    answering = (Node(CROWD), *spell(nodes))
    line = f"NodeName={crowd} {SHAPE} NodeAddr={ADDRESS} State=UNKNOWN"
    with cluster(nodes=answering, version=version, config=settings, lines=(line, *lines)) as made:
        made.expect(called, "IDLE", timeout=PATIENCE)
        yield made


def external(version: str) -> bool:
    return tuple(map(int, version.split("."))) >= SINCE_EXTERNAL


def names(count: int) -> list[str]:
    return [f"sim{index:0{_digits(count)}}" for index in range(1, count + 1)]


def _digits(count: int) -> int:
    return max(4, len(str(count)))
