"""`sunk verify`: watch a cluster from outside, and say when one of the laws in docs/concepts/laws.md is broken.

In: NodeSets, NodeSlices, Pods and Nodes by watches, and the mirror of Slurm where there is one. Out: a line for each
breach, and an exit code. Called by the command line, and by tests that disturb a cluster on purpose.

Read `commands`, then `laws` and `locklaws` (pure: what is wrong with two sides as they were read), then `watcher` (both
sides followed, how long a fault has lasted, and what can only be seen as it happens).
"""
