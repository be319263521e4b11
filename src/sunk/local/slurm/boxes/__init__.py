"""TODO: boxes."""
