"""The syncer: keeps the nodes of one Slurm cluster and their Pods in step, both ways."""
