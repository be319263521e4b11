"""The Pod controller: what a Node says, written on the compute Pod on it."""
