"""TODO: auth."""
