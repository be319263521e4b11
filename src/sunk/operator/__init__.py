"""The operator: four controllers that build Slurm clusters out of Pods. It never talks to Slurm."""
