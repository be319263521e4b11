"""TODO: render."""
