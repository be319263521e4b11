"""TODO: decide."""
