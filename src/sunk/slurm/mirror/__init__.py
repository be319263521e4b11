"""The mirror: what Slurm says now, and how sure that is.

In come whole tables of nodes, jobs, partitions and reservations from a `Reader` (`sunk.slurm.libslurm.library`); out
come rows by key, calls of subscribers at every difference, and `require_fresh`, which stands in front of whatever
destroys. One mirror per process; the syncer and `sunk slurm --watch` read it.

Read `mirror` first, then `reading` (how Slurm is read), `rows` (one table and its differences), `confidence` (which
losses can be true), `doubts` (all reasons not to act) and `accounting` (proof that a missing job has ended).
"""
