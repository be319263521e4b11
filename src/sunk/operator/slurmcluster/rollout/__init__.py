"""TODO: rollout."""
