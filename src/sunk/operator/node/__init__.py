"""The Node controller: what Slurm says of a machine, written on its Node."""
