"""Commands by which people see how a cluster is, why, and what to do about it.

In: what Kubernetes holds, and for `verify` and `user` also what Slurm says. Out: pages for a terminal, JSON for programs,
an exit code. Called by `sunk.cli` alone; nothing below imports it.

One room for each command: `status` (all clusters on a page), `explain` (why one node is as it is), `user` (who somebody is,
and why a login or a job is refused), `verify` (whether the laws hold), `check` (what the lock would evict), `drain` (ask the
syncer to drain or undrain), `node` (free a Node by hand), `keys` (exchange the key of Slurm). In each, `commands` has the
options and is imported at the start; the modules beside it are imported when the command runs. `nodepods` has the Pods of
a Node as several of them read them.
"""
