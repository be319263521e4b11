"""`sunk slurm nodes`, `jobs`, `partitions` and `stats`: Slurm's tables for people and programs.

In come options of a command line; out come tables on a terminal, or JSON, once or for as long as somebody watches. Only
`sunk.cli` calls it.

Read `commands` (options), `pages` (what is read and shown), `tables` (how it looks) and `selection` (which rows).
"""
