"""Bring what was built into a real cluster, and say in the status how far that has come.

In come a SlurmCluster, its `ResolvedCluster` and the objects built from it; out come writes to Kubernetes. Beside
`controller`, which calls it in the order of this list, nothing here talks to Kubernetes:

- `removal`: the finalizer, and the end of a cluster.
- `references` and `secrets`: what somebody else has to make is there, and what we make once is made.
- `certificates`: of the hook API, made, renewed and dropped; by `certificaterule` (when) and `issuing` (how).
- `retirement`: which configuration the cluster should have while partitions retire.
- `configuration`: it is tried, applied and read by Slurm; by `trial` (what is tried, and how) and `probe` (Pods that ask).
- `apply`: objects are applied, and those that nobody wants any more are deleted.
- `people`: what the directory agent reports.
- `status`: conditions and numbers, by a pure function.
"""
