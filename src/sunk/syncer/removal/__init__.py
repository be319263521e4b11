"""What may be taken away: Pods that may go, Slurm's records of what has left, Pods that need a restart.

In come members that leave, Pods marked for deletion, rows and jobs of Slurm. Out go clearances and restart requests on
Pods, the status of NodeSlices, and deletions of Slurm's records. Pods themselves are deleted by the NodeSet controller.
`sunk.syncer.process` runs the controllers; nobody else deletes a record. All that destroys goes through one door, `guard`,
which reads both sides again, asks what speaks against it, and checks leadership last. The other modules decide, by pure
functions, and write nothing.

Read `guard` and `blockers` (what keeps a record), then `clearance` (a Pod may go), `release` (its record follows),
`orphans` (records of nobody), `reshape` (records of another size) and `unregistered` (Pods that Slurm does not know).
"""
