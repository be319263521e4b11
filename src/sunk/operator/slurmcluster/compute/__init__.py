"""Compute nodes: one NodeSet for each enabled definition, and the scripts that its Pods have.

In comes a `ResolvedCluster`, out come NodeSets, their headless Service and the ConfigMaps with scripts, as plain dicts. No
I/O, and nobody but `objects` builds them; the NodeSet controller makes the Pods.

Read `nodesets` (the Pod of a node, and the line by which it introduces itself to Slurm), `capabilities` (what slurmd may
do beyond a plain container) and `scripts` (prolog, epilog and end of a Pod; the scripts themselves are the .sh files beside
it: `prelock.sh` waits for the lock, `sessions.sh` ends logins with the last job of their user). How much of a Node Slurm gets is in `slurmconf.shares`.
"""
