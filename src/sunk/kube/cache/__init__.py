"""TODO: cache."""
