"""The operator: four controllers that build Slurm clusters out of Pods. It never talks to Slurm.

In come Nodes, Pods and our own objects; out go Nodes, Pods and what a SlurmCluster is made of. `commands` starts it.
`slurmcluster`, `nodeset`, `node` and `pod` are the controllers; none imports another. What they share is here: `caches`
(Nodes, Pods and NodeSets, each watched once), `keptdrains` (drains that outlive a Node object) and `podannotations` (what
a compute Pod carries because of its Node).
"""
