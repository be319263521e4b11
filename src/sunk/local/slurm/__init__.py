"""A real Slurm on this machine without Kubernetes, out of the files of our own images, for tests and benchmarks.

```python
with slurm.cluster(nodes=3, gpus=("h100",), config={"KillWait": 30}) as it:
    it.run("srun", "-N3", "hostname", uid=1001)                 # alice; on the machine `login`
    it.add(Node("g1", cpus=64, memory=512000, features=("h100",), gres="gpu:h100:8"))
    it.stop("n1", with_signal=signal.SIGKILL)                   # slurmd alone; its jobs live on
    it.kill("n2")                                               # all of that machine, as when a Pod is lost
    it.expect("n2", "DOWN", without=(), timeout=60)
    it.start("n1", "n2")
    it.kill("controller"); it.start("controller")               # its state is kept
    it.python("-c", "import ctypes; ctypes.CDLL('libslurm.so.42')")
    pytest_inside(it, "tests/slurm")                            # in our own image, beside that cluster

with slurm.cluster(nodes=1, accounting=True) as it:             # slurmdbd and MariaDB; limits are enforced
    it.run("sacctmgr", "-i", "add", "account", "lab")
    it.kill("accounting"); it.start("accounting")

with slurm.cluster(nodes=1, munge=True) as it: ...              # where the image has munged (24.11)
with slurm.many_nodes(5000) as it: ...                          # without as many slurmd; see `simulated`
Component(it, "syncer", api=cluster, command=("sunk", "syncer", …))     # our own package, between two worlds; see `component`
```

Machines are `controller` (slurmctld), `login` (sackd, commands), `sunk` (our own image, on login's network), with
accounting also `accounting` (slurmdbd) and `database` (MariaDB), and one per node; each is a box of namespaces (see
`box`) on a network that leads nowhere. Nodes are dynamic and configless, as in production. Nothing outlives the block;
what a killed test run left is removed by the next one's start.
"""

from sunk.local.slurm.boxes.machines import CommandResult
from sunk.local.slurm.configuration import Node
from sunk.local.slurm.inside import InsideResult, pytest_inside
from sunk.local.slurm.running import Slurm
from sunk.local.slurm.simulated import many_nodes
from sunk.local.slurm.starting import cluster

__all__ = ["CommandResult", "InsideResult", "Node", "Slurm", "cluster", "many_nodes", "pytest_inside"]
