"""Our own objects as the kit reads them, and what their records say.

No I/O: resources to give to a client or a collection, and functions of one record. The operator, the syncer and
`sunk.insight` share them. `slurmclusters` and `nodesets` hold the resources, with who owns and claims what;
`computepods` says what the record of a compute Pod means for a decision.
"""
