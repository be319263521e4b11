"""TODO: slurmconf."""
