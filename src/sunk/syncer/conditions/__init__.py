"""TODO: conditions."""
