"""The types of a SlurmCluster, which are also the values of the chart `slurm`.

In: what a person wrote, checked by the schemas made from these types. Out: frozen structs for whoever builds or shows a
cluster. No rule is in here that a schema could not say.

Begin with `kind` (the whole), then `daemons` (slurmctld, slurmdbd, login, syncer and the others), `compute` (definitions of
nodes), `configuration` (slurm.conf), `users` and `directory`; `parts` has what many of them share.
"""
