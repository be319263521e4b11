"""TODO: kubernetes."""
