"""TODO: observe."""
