"""Names, types and pure rules. Nothing here reads or writes anything, except `generate`, which writes what they give.

Everything may import it, and it imports nothing else of ours.

`names` has every name that we put on objects of Kubernetes, and `contract` what else two processes agree on. `nodeset`,
`nodeslice` and `cluster` are the types of our kinds, `installation` the values of the chart `sunk`; `schema` turns
types into CRDs and JSON Schemas, and `layers` composes definitions of compute nodes. `settings` makes options and
variables of a process out of a struct; `generate` is `make generate`. `kubernetes` and `hostlist` are rules of
Kubernetes and Slurm that we need to apply ourselves.
"""
