"""Talk to Slurm: the only place that knows libslurm."""
