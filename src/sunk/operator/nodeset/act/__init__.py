"""TODO: act."""
