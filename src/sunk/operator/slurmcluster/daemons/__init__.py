"""The control plane and the login Pods: a module for each daemon, and who may connect to whom.

In comes a `ResolvedCluster`, out come the objects of each daemon as plain dicts, by a function `objects` in every module;
one that is switched off, or somebody else's, gives none. No I/O. `objects` collects them, and `rollout` knows slurmdbd's
file, to have it tried.

Read `slurmctld` first; then `slurmdbd` and the `database` behind it, `syncer` (with its account and rights), `login`,
with its `loginservices`, `directory` (the agent that reads directories), `slurmrestd`, and last `networkpolicy`. `apiaccess` is
what those have in common that talk to the API server. The .sh files beside a module are what its containers and probes run.
"""
