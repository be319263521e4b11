"""TODO: contract."""
