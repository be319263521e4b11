"""SlurmClusters: everything that a Slurm cluster is made of, out of one object.

In comes a SlurmCluster, whose spec is the chart's values; out come the Deployments, StatefulSets, Services, ConfigMaps,
Secrets and NodeSets of a Slurm cluster, and the SlurmCluster's status. `sunk operator` runs the controller, `sunk render`
shows what it would build, and `sunk.insight` reads conditions and workloads by the names that are declared here.

Read `controller` first, which is a table of contents. `resolve` checks a spec and composes its definitions; from there on
everything up to `objects` is a pure function of a `ResolvedCluster`: `slurmconf` (files), `builders` (what Pods have in
common), `daemons` and `compute` (the Pods). `rollout` is what talks to Kubernetes. Imports point that way:
`controller` → `rollout`, `render` → `objects` → `daemons`, `compute` → `builders` → `slurmconf` → `resolve`.
"""
