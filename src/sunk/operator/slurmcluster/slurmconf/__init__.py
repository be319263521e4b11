"""Slurm's configuration: slurm.conf, gres.conf and cgroup.conf, as texts.

In comes a `ResolvedCluster`, out come the texts of files, and the paths, ports and numbers that Pods have to agree on with
them. No I/O and no Kubernetes objects. Everything that builds Pods may import it.

Read `conf` (the settings, and the hash of a configuration), `partitions` (those of people, of definitions, and those that
retire), `gres`, `shares` (what Slurm gets of a node), `timers` and `nodelogins` (what prologs, and people who log in to
nodes, ask of Slurm); `lines` keeps values from becoming more than one value.
"""
