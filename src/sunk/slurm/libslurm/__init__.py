"""TODO: libslurm."""
