"""What became of all SlurmClusters and NodeSets, on one page: `sunk status`."""
