"""TODO: build."""
