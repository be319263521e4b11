"""What we tell Slurm. Nothing else here writes to it.

In come names of nodes, descriptions of jobs and what was seen of them; out come calls of libslurm and an outcome that
says who was told, who is unknown and who was left alone. The syncer, commands and benchmarks give orders.

Read `nodes` (drain, undrain, features, create, delete) with `guarded` (somebody else's drain is kept) and `extra` (the
text that we share with users); `jobs` with `description`; `accounts` (associations of slurmdbd); `bounds` is what is never sent.
"""
