"""TODO: visibility."""
