"""Machines of a Slurm cluster, as boxes of namespaces over the files of our images.

In: a `Layout`, which says what machines a cluster has. Out: running daemons, a way into each machine, and their logs.
Called by `sunk.local.slurm` alone.

Read `box` (one machine), `network` (what connects them), `layout` (which machines, with which files and daemons), then
`machines` (start, stop, kill, enter).
"""
