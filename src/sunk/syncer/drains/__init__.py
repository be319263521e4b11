"""TODO: drains."""
