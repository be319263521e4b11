"""`sunk drain` and `sunk undrain`: a person's order about Slurm nodes, carried out by the syncer.

In: names of nodes and a reason. Out: an annotation on each Pod, and the syncer's answer from another annotation; the
texts of both are `sunk.model.contract.requests`. Only the command line calls it.

Read `commands`, then `request`.
"""
