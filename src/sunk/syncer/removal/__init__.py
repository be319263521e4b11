"""TODO: removal."""
