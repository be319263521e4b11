"""The Node controller: what Slurm says of a machine, written on its Node.

In come Nodes, the compute Pods on them with the syncer's conditions, and drains that are kept; out goes at most one patch
of a Node, and the drain of a person into a ConfigMap. It is the only writer of Nodes besides the claims of NodeSets.
The operator starts `controller.nodes`, and nobody else calls in. Read `controller` (what is looked at, and when), then
`plan` (the rules, pure). `lock` and `tenants` are the rules of the lock: what it shall be, and which Pods are in its way;
the controller does not follow them yet.
"""
