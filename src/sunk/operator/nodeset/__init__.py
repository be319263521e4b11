"""NodeSets: which Nodes take part, their Pods, and how they leave."""
