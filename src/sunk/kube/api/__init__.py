"""TODO: api."""
