"""The syncer: keeps the nodes of one Slurm cluster and their Pods in step, both ways.

In come compute Pods, NodeSlices, NodeSets, the SlurmCluster and slurmctld's ConfigMap from Kubernetes, and the mirror of
Slurm's tables, and calls of compute Pods. Out go orders to slurmctld and patches of the status of Pods, NodeSlices and the
SlurmCluster; Nodes are never written, but for the condition that asks for a reboot. Only `sunk.cli` calls it, through
`commands`.

Read `context`, `process` (which puts the parts together), then `members`, `pods` and `jobs` (who is ours, and what holds
it). Each package is one direction: `drains` from Kubernetes to Slurm, `conditions` back, `removal` what may be deleted,
`config` what slurmctld runs with, `hooks` what prologs are answered, `accounts` which users slurmdbd has in which
accounts, `visibility` what is reported about the whole.
"""
