"""`sunk user`: what the directory, Kubernetes and Slurm say about a person, and why a login or a job is refused.

In: the ConfigMaps in which the users of a cluster are published, the SlurmCluster, and what `id`, `sacctmgr`, `squeue` and
`scontrol` say in its Pods, with the rights of whoever asks. Out: a `Finding`, as a page or as JSON, and an exit code.
Read-only. Whatever cannot be read is named, and everything else is told. Only the command line calls it.

Read `commands`, then `person` (who somebody is, by the files that Pods have), `slurm` (what Slurm says about them), `rules`
(which accounts they should have), `situation` (all that was seen), `unknown`, `login` and `job` (why something is refused)
and `page`, all of which are pure; and `reading`, which asks.
"""
