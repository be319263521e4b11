"""What may be taken away: Pods that may go, Slurm's records of what has left, Pods that need a restart.

In come members that leave, Pods marked for deletion, rows and jobs of Slurm. Out go clearances and restart requests on
Pods, the status of NodeSlices, and deletions of Slurm's records. Pods themselves are deleted by the NodeSet controller.
`sunk.syncer.process` runs the controllers; nobody else deletes a record. Before anything is destroyed, both sides are
read again and leadership is checked.

Read `clearance` (a Pod may go), `release` (its record follows), `blockers` (what keeps a record), then `orphans` (records
of nobody), `reshape` (records of another size) and `unregistered` (Pods that Slurm does not know).
"""
