"""Parts of `bench.slurm_read`. `worker` and what it imports run inside our image, the rest on this machine."""
