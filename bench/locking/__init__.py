"""Parts of `bench.lock`. `caller` runs inside our image, the rest on this machine."""
