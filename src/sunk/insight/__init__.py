"""Commands that tell people how things are, and why."""
