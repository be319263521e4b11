"""The Node controller: what Slurm says of a machine, written on its Node, and the lock that keeps other work off it.

In come Nodes, the compute Pods on them with the syncer's conditions and requests, all other Pods, and drains that are kept;
out go patches of Nodes, and the drain of a person into a ConfigMap. It is the only writer of Nodes besides the claims of
NodeSets. The operator starts `controller.nodes`, and nobody else calls in.

Read `controller` (what is looked at, and when) and `plan` (what a Node says, pure). Then the lock: `lock` (what it shall
be, pure), `tenants` (which Pods are in its way, pure), `lockcontrol` (which follows both), `lockevents` (what people are
told).
"""
