"""A whole Kubernetes on this machine, made of real parts, for trying SUNK out and for testing it."""
