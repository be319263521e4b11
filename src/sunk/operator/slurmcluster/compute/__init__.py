"""TODO: compute."""
