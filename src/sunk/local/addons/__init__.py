"""TODO: addons."""
