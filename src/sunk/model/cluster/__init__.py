"""SlurmCluster: a whole Slurm cluster in one object, whose spec is what people write into the values of the chart."""
