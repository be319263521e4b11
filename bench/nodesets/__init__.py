"""The pieces of `bench.nodeset`."""
