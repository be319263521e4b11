"""A whole Kubernetes on this machine, made of real parts, for trying SUNK out and for testing it.

In: the sources of this clone, and packages from mirrors. Out: processes, namespaces and folders, all under one name and
all removed with it. Called by `sunk local`, tests and benchmarks; nothing that is shipped imports it.

`commands` is the way in, `install` puts the charts onto a cluster. `build` makes programs and images, `kubernetes` brings
a cluster up and down, `addons` does what a cloud provider would, `slurm` is a Slurm without Kubernetes, `fakekubelet`
plays thousands of Nodes. `paths`, `naming`, `shell` and `progress` serve all of them.
"""
