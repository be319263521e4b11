"""SlurmClusters: everything that a Slurm cluster is made of, out of one object."""
