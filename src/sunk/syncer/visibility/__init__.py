"""What the syncer reports about the cluster as a whole, for `status.syncer` of the SlurmCluster and for `/readyz`.

In come the reports of all parts and the state of the mirror; out go one status patch and a person's acceptance of what
is hard to believe. `sunk.syncer.process` runs `Reporter` and `SuspicionAcceptance`; `sunk.syncer.metrics` reads `Clocks`.

Read `report` (merges what the parts say), `reachability` (whether Slurm can be read), `acceptance` (trusting Slurm upon a
person's word), `clocks` (how far the clocks are apart).
"""
