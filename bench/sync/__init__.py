"""Parts of `bench.sync_latency`. `witness` runs inside our image, the rest on this machine."""
