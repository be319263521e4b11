"""TODO: mirror."""
