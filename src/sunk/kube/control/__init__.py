"""TODO: control."""
