"""Kubernetes to Slurm: drains, features, `Extra`, and the requests of people, for many nodes in few calls.

In come changes of Pods, NodeSlices and Slurm's rows; out go orders through `sunk.slurm.orders`, answers on Pods, and a
report of what is delayed or stuck. `sunk.syncer.process` runs `DrainController`; `removal` uses `snapshot.standing` and
`extra.marked`. Nobody else drains or undrains a node.

A cordon passes `controller` (gathers what changed), `snapshot` (both sides of a node, and the causes), `plan` (what to
tell Slurm), `executor` (tells it). Beside that: `requests` (`sunk drain`, `sunk undrain`), `extra` (our key in the
record), `waves` (many Pods that stop being ready together).
"""
