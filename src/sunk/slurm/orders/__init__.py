"""TODO: orders."""
