"""What two processes agree on, declared once: texts, reasons, names of objects, and the rules of who may rely on what.

Operator, syncer, scheduler and commands import it; nothing in it imports any of them. Charts and shell repeat some of it,
and `tests/unit/model/test_strays.py` finds what is repeated elsewhere, or differently.

Names on objects of Kubernetes are in `sunk.model.names`. Here: `drains` (the `k8s:` reasons and their causes),
`conditions` (of NodeSets and SlurmClusters), `clusterobjects` (names of a cluster's objects, ports), `clearance` (that a
Pod may be deleted), `requests` (what people ask of the syncer), `report` (what the syncer tells the operator),
`lock` (the lock of a Node), `hooks` (the hook API), `keptdrains` (people's drains that outlive a Node), `confighash` (which configuration slurmctld runs), `features`, `keyset`
(keys of auth/slurm), and `syncerwrites` (all that a syncer may write).
"""
