"""TODO: process."""
