"""Slurm to Kubernetes: what each compute Pod shows about its Slurm node.

In come changes of Slurm's nodes and jobs; out go the conditions SlurmDrain, SlurmRunning and SlurmNotResponding of Pods,
the labels beside them, and the label that allows an eviction. Nobody else writes those. `sunk.syncer.process` runs
`ConditionController` and `CompletingNodes`.

Read `controller` (what enqueues a Pod), `plan` (pure: what it should show), `completing` (nodes that do not come to the
end of a job).
"""
