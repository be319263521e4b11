"""TODO: daemons."""
